"""A cluster file with a measured link in it, for `plan` and every other verb that takes a cluster."""

from __future__ import annotations

import json

from lockstep.errors import BadInput
from lockstep.hardware import Cluster
from lockstep.measure.fit.fit import LinkFit

LINK = "measured"


def cluster_yaml(fit: LinkFit, *, name: str, date: str, base: Cluster, level: str) -> str:
    """YAML of `base` with the link of one level replaced by the one found. Raises BadInput for an unknown level."""
    names = [one.name for one in base.levels]
    if level not in names:
        raise BadInput(f"{base.name} has no level {level!r}; it has {', '.join(names)}", "--level")
    error = fit.left_out
    told = "" if error is None else f", leave-one-out error {error[0]:.2%} (median), {error[1]:.2%} (largest)"
    source = f"lockstep fit of {fit.points.source}{told}"
    lines = ["# Made by lockstep fit; every number may be edited.", "links:", f"  {LINK}:"]
    lines += [f"    latency: {fit.latency_s:.6g} s", f"    bandwidth: {fit.bandwidth_Bps:.6g} B/s", "    achieved: 1"]
    if fit.link.reduce_s_per_B > 0:
        lines.append(f"    reduce_bandwidth: {1 / fit.link.reduce_s_per_B:.6g} B/s")
    lines += [f"    measured: {json.dumps(date)}", f"    source: {json.dumps(source)}"]
    lines += ["cluster:", f"  name: {json.dumps(name)}", f"  device: {json.dumps(base.device.name)}", "  levels:"]
    for one in base.levels:
        link = LINK if one.name == level else one.link.name
        links = f", links: {one.links_per_child}" if one.links_per_child != 1 else ""
        words = f"name: {json.dumps(one.name)}, size: {one.size}, link: {json.dumps(link)}{links}"
        lines.append(f"    - {{{words}}}")
    return "\n".join(lines) + "\n"
