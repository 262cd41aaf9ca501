"""A cluster file with a measured link in it, for `plan` and every other verb that takes a cluster."""

from __future__ import annotations

import json

from lockstep.hardware import Cluster, Level
from lockstep.measure.fit.fit import LinkFit
from lockstep.measure.fit.placement import UNKNOWN
from lockstep.units import format_bandwidth

LINK = "measured"


def cluster_yaml(fit: LinkFit, *, name: str, date: str, base: Cluster, index: int, rate_Bps: float) -> str:
    """YAML of `base` with the link of level `index` replaced by the one found, at `rate_Bps` per link.

    The wire keeps its rate, where it is known; what was measured of it is the share achieved.
    """
    measured = base.levels[index]
    lines = ["# Made by lockstep fit; every number may be edited.", "links:", f"  {LINK}:"]
    lines += [f"    latency: {fit.latency_s:.9g} s", *_rate(measured, rate_Bps)]
    if fit.link.reduce_s_per_B > 0:
        lines.append(f"    reduce_bandwidth: {1 / fit.link.reduce_s_per_B:.9g} B/s")
    lines += [f"    measured: {json.dumps(date)}", f"    source: {json.dumps(_source(fit, measured, rate_Bps))}"]
    lines += ["cluster:", f"  name: {json.dumps(name)}", f"  device: {json.dumps(base.device.name)}", "  levels:"]
    for one in base.levels:
        link = LINK if one is measured else one.link.name
        links = f", links: {one.links_per_child}" if one.links_per_child != 1 else ""
        words = f"name: {json.dumps(one.name)}, size: {one.size}, link: {json.dumps(link)}{links}"
        lines.append(f"    - {{{words}}}")
    return "\n".join(lines) + "\n"


def _rate(level: Level, rate_Bps: float) -> list[str]:
    if level.link.name == UNKNOWN:
        return [f"    bandwidth: {rate_Bps:.9g} B/s", "    achieved: 1"]
    wire_Bps = level.link.bandwidth_Bps
    return [f"    bandwidth: {wire_Bps:.9g} B/s", f"    achieved: {min(rate_Bps / wire_Bps, 1.0):.9g}"]


def _source(fit: LinkFit, level: Level, rate_Bps: float) -> str:
    """What the numbers rest on."""
    told = [f"lockstep fit of {fit.points.source}"]
    if fit.left_out is not None:
        told.append(f"leave-one-out error {fit.left_out[0]:.2%} (median), {fit.left_out[1]:.2%} (largest)")
    if level.link.name != UNKNOWN:
        wire = format_bandwidth(level.link.bandwidth_Bps)
        told.append(f"{format_bandwidth(rate_Bps)} per link of the {wire} of {level.link.name}")
    return ", ".join(told)
