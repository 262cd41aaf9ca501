"""A cluster file with a measured link in it, for `plan` and every other verb that takes a cluster."""

from __future__ import annotations

import json

from lockstep.errors import BadInput
from lockstep.hardware import Cluster, Host, Level, Link, devices, links
from lockstep.measure.fit.fit import LinkFit
from lockstep.measure.fit.placement import UNKNOWN
from lockstep.units import format_bandwidth

LINK = "measured"


def cluster_yaml(fit: LinkFit, *, name: str, date: str, base: Cluster, index: int, rate_Bps: float) -> str:
    """YAML of `base` with the link of level `index` replaced by the one found, at `rate_Bps` per link.

    The wire keeps its rate, where it is known; what was measured of it is the share achieved.
    Links that are not of the catalog are written beside it. Raises BadInput for a device that is not of the catalog.
    """
    measured = base.levels[index]
    own = {one.link.name: one.link for one in base.levels if one is not measured and one.link not in links()}
    new = LINK if LINK not in own else f"{LINK}-{measured.name}"
    if base.device not in devices():
        raise BadInput(
            f"{base.device.name} is not a device of the catalog; write the link into its file by hand", "--cluster"
        )
    lines = ["# Made by lockstep fit; every number may be edited.", "links:", f"  {json.dumps(new)}:"]
    lines += [f"    latency: {fit.latency_s:.9g} s", *_rate(measured, rate_Bps)]
    if fit.link.reduce_s_per_B > 0:
        lines.append(f"    reduce_bandwidth: {1 / fit.link.reduce_s_per_B:.9g} B/s")
    lines += [f"    measured: {json.dumps(date)}", f"    source: {json.dumps(_source(fit, measured, rate_Bps))}"]
    for link in own.values():
        lines += _kept(link)
    lines += ["cluster:", f"  name: {json.dumps(name)}", f"  device: {json.dumps(base.device.name)}", "  levels:"]
    for one in base.levels:
        link_name = new if one is measured else one.link.name
        number = f", links: {one.links_per_child}" if one.links_per_child != 1 else ""
        words = f"name: {json.dumps(one.name)}, size: {one.size}, link: {json.dumps(link_name)}{number}"
        lines.append(f"    - {{{words}}}")
    if base.host is not None:
        lines.append(f"  host: {{{_host(base.host, base.name)}}}")
    return "\n".join(lines) + "\n"


def _kept(link: Link) -> list[str]:
    """A link of the file that the cluster came from, as it was."""
    lines = [f"  {json.dumps(link.name)}:", f"    latency: {link.latency_s:.17g} s"]
    lines += [f"    bandwidth: {link.bandwidth_Bps:.17g} B/s", f"    achieved: {link.achieved_frac:.17g}"]
    if link.reduce_s_per_B > 0:
        lines.append(f"    reduce_bandwidth: {1 / link.reduce_s_per_B:.17g} B/s")
    known = link.provenance.get("latency_s")
    if known is not None and known.kind == "measured":
        lines.append(f"    measured: {json.dumps(known.date)}")
    return [*lines, *([f"    source: {json.dumps(known.text)}"] if known is not None else [])]


def _host(host: Host, owner: str) -> str:
    """The hosts of `owner` in the words of a cluster file, a link that the catalog does not have in place."""
    link = json.dumps(host.link.name)
    if host.link not in links():
        numbers = f"latency: {host.link.latency_s:.17g} s, bandwidth: {host.link.bandwidth_Bps:.17g} B/s"
        link = f"{{{numbers}, achieved: {host.link.achieved_frac:.17g}}}"
    words = [f"link: {link}, devices: {host.devices}, devices_per_link: {host.devices_per_link}"]
    if host.memory_B is not None:
        words.append(f"memory: {host.memory_B:.17g} B")
    if host.memory_bandwidth_Bps is not None:
        words.append(f"memory_bandwidth: {host.memory_bandwidth_Bps:.17g} B/s")
    return ", ".join([*words, f"source: {json.dumps(f'as in {owner}')}"])


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
