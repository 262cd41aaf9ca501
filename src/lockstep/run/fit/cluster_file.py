"""A cluster file with a measured link in it, for `plan` and every other verb that takes a cluster.

`measured_level` says which level of the cluster was measured, `link_rate_Bps` what one link of that level carried. A
fit gives the rate B of one rank by the flat price of its collective. Ranks of one host talk over the innermost level.
Among hosts with one rank each, B is the rate of a rank's own links. With several ranks per host a ring runs in channels
that leave the host through all its adapters, and B is what leaves the host (`simulate/collectives/levels/ring.py`). A
catalog counts links per child of a level (the NICs of a node), shared by its devices: the rate of one link is what
leaves the child over the links its devices reach."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lockstep.base.documents.files import File
from lockstep.base.errors import BadInput
from lockstep.base.units import format_bandwidth
from lockstep.describe.hardware import Cluster, Host, Level, Link, devices, links
from lockstep.describe.hardware.link import Switch
from lockstep.describe.hardware.source import Source
from lockstep.run.fit.fit import LinkFit, fit_link
from lockstep.run.fit.points import LIBRARY, Hosts, Points
from lockstep.run.fit.read import read_series

UNKNOWN = "unknown"
"""Name of a link with an unknown wire rate."""
LINK = "measured"


def measured_level(hosts: Hosts | None, base: Cluster, level: str | None) -> int:
    """Index of the level that was measured: by the hosts, or `level` where the text does not tell. Raises BadInput."""
    names = [one.name for one in base.levels]
    if level is not None and level not in names:
        raise BadInput(f"{base.name} has no level {level!r}; it has {', '.join(names)}", "--level")
    if hosts is None or len(names) == 1:
        if level is None and len(names) > 1:
            raise BadInput(
                f"the file does not state over which level the ranks of {base.name} communicated; "
                f"specify {' or '.join(names)}",
                "--level",
            )
        return names.index(level) if level is not None else 0
    node, held = base.devices_per_unit(0), max(len(devices) for devices in hosts.devices.values())
    if held > node:
        raise BadInput(f"a host of the text has {held} ranks, a {names[0]} of {base.name} {node} devices", "--cluster")
    possible = names[:1] if len(hosts.devices) == 1 else names[1:]
    if level is not None and level not in possible:
        raise BadInput(f"{hosts} do not measure {level}, but {' or '.join(possible)}", "--level")
    if level is None and len(possible) > 1:
        raise BadInput(f"{hosts} may have communicated over {' or '.join(possible)}; specify which", "--level")
    return names.index(level if level is not None else possible[0])


def link_rate_Bps(found: LinkFit, base: Cluster, index: int) -> float:
    """Achieved bytes per second and direction of one link of the level. Raises BadInput above the rate of its wire."""
    level, devices = base.levels[index], base.devices_per_child(index)
    senders = _senders(found, found.points.hosts) if index else (0,)
    if len(senders) > devices:
        raise BadInput(f"a host of the text has {len(senders)} ranks, {base.name} {devices} devices", "--cluster")
    rate_Bps = found.bandwidth_Bps / _links_reached(senders, devices, level.links_per_child)
    if level.link.name != UNKNOWN and rate_Bps > level.link.bandwidth_Bps:
        measured, wire = format_bandwidth(rate_Bps), format_bandwidth(level.link.bandwidth_Bps)
        raise BadInput(
            f"{measured} for one link of {level.name} is above the {wire} of the wire ({level.link.name}); "
            f"what was measured is another level, a switch that reduces (NVLS, SHARP), or not {base.name}",
            "--level",
        )
    return rate_Bps


def _senders(found: LinkFit, hosts: Hosts | None) -> tuple[int, ...]:
    """Devices of a host whose links carry together what the fit gives as the rate of a rank. Raises BadInput."""
    if hosts is None or hosts.ranks_each == 1:
        return (0,) if hosts is None else hosts.local()
    local, each = hosts.local(), hosts.ranks_each
    names = {point.algorithm or found.taken_for or LIBRARY.get(point.op, point.op) for point in found.points.points}
    if names == {"ring"}:
        return local
    if names == {"send-recv"}:
        # Every rank sends to the next one, so only the last of a host sends out of it.
        return local[-1:]
    raise BadInput(
        f"{', '.join(sorted(names))} on {each} ranks per host does not show what one link carried; "
        "measure with one rank per host, or a ring",
        "--algorithm",
    )


def _links_reached(local: tuple[int, ...], devices: int, links: int) -> float:
    """Links of a child that these of its devices use: shared ones, or some of their own."""
    ports = min(links, devices)
    return len({device % devices * ports // devices for device in local}) * links / ports


def cluster_yaml(fit: LinkFit, *, name: str, date: str, base: Cluster, index: int, rate_Bps: float) -> str:
    """YAML of `base` with the link of level `index` replaced by the one found, at `rate_Bps` per link.

    The wire keeps its rate, where it is known; what was measured of it is the share achieved.
    Links that are not of the catalog are written beside it. Raises BadInput for a device that is not of the catalog.
    """
    measured = base.levels[index]
    own = {one.link.name: one.link for one in base.levels if one is not measured and one.link not in links()}
    new = LINK if LINK not in own else f"{LINK}-{measured.name}"
    _of_catalog(base, "the link")
    lines = ["# Made by lockstep fit; every number may be edited.", "links:", f"  {json.dumps(new)}:"]
    lines += [f"    latency: {fit.latency_s:.9g} s", *_rate(measured, rate_Bps)]
    if fit.link.reduce_s_per_B > 0:
        lines.append(f"    reduce_bandwidth: {1 / fit.link.reduce_s_per_B:.9g} B/s")
    lines += [f"    measured: {json.dumps(date)}", f"    source: {json.dumps(_source(fit, measured, rate_Bps))}"]
    for link in own.values():
        lines += _kept(link)
    lines += ["cluster:", f"  name: {json.dumps(name)}", f"  device: {json.dumps(base.device.name)}"]
    lines += _inside(base, [new if one is measured else one.link.name for one in base.levels])
    return "\n".join(lines) + "\n"


def with_measured_link(base: Cluster, file: File) -> Cluster:
    """The cluster with the links that measured collectives show at the levels they ran over. Raises BadInput.

    Of several collectives at one level the first of LIBRARY is taken, of several numbers of ranks the largest.
    """
    order = list(LIBRARY)
    chosen: dict[int, Points] = {}
    for points in sorted(read_series(file), key=lambda one: _place(one, order)):
        chosen.setdefault(measured_level(points.hosts, base, None), points)
    for index, points in sorted(chosen.items()):
        base = with_fitted_link(base, index, fit_link(points))
    return base


def _place(points: Points, order: Sequence[str]) -> tuple[int, int]:
    first = points.points[0]
    return order.index(first.op) if first.op in order else len(order), -first.ranks


def with_fitted_link(base: Cluster, index: int, fitted: LinkFit) -> Cluster:
    """The cluster with the latency and the rate that a fit found at a level. Raises BadInput above the wire's rate."""
    points, level = fitted.points, base.levels[index]
    share = link_rate_Bps(fitted, base, index) / level.link.bandwidth_Bps
    measured = Source("measured", _source(fitted, level, share * level.link.bandwidth_Bps), points.date or "")
    # The latency that was found holds a start and the rank's own copies, if the link has them.
    inside = ("start_s", "copy_Bps", "kept_Bps")
    kept = {name: source for name, source in level.link.provenance.items() if name not in inside}
    found = replace(
        level.link.reaching(share), name=f"{level.link.name}-measured", latency_s=fitted.latency_s, start_s=0.0,
        copy_Bps=None, kept_Bps=None, provenance={**kept, "latency_s": measured, "achieved_frac": measured},
    )  # fmt: skip
    return replace(base, levels=tuple(replace(one, link=found) if one is level else one for one in base.levels))


def paced_yaml(base: Cluster, name: str, pace: Mapping[str, object], verb: str = "calibrate") -> str:
    """YAML of `base`, a cluster of a catalog device, whose links are written out where the catalog has others.

    `pace` says how much longer than predicted its kernels take (`hardware.schema.PaceEntry`).
    """
    _of_catalog(base, "the pace")
    own = {one.link.name: one.link for one in base.levels if one.link not in links()}
    lines = [f"# Made by lockstep {verb}; every number may be edited."]
    lines += ["links:", *(line for link in own.values() for line in _kept(link))] if own else []
    lines += ["cluster:", f"  name: {json.dumps(name)}", f"  device: {json.dumps(base.device.name)}"]
    lines += [f"  pace: {json.dumps(dict(pace))}", *_inside(base, [one.link.name for one in base.levels])]
    return "\n".join(lines) + "\n"


def _of_catalog(base: Cluster, what: str) -> None:
    """Raises BadInput where the device cannot be named."""
    if base.device not in devices():
        said = f"{base.device.name} is not a device of the catalog; write {what} into its file by hand"
        raise BadInput(said, "--cluster")


def _inside(base: Cluster, link_names: Sequence[str]) -> list[str]:
    """Levels, hosts and prices of a cluster."""
    lines = ["  levels:"]
    for one, link_name in zip(base.levels, link_names, strict=True):
        number = f", links: {one.links_per_child}" if one.links_per_child != 1 else ""
        number += f", links_per_group: {one.links_per_group}" if one.links_per_group else ""
        number += f", crowding: {one.crowding:.17g}" if one.crowding else ""
        words = f"name: {json.dumps(one.name)}, size: {one.size}, link: {json.dumps(link_name)}{number}"
        lines.append(f"    - {{{words}}}")
    if base.host is not None:
        lines.append(f"  host: {{{_host(base.host, base.name)}}}")
    own = {"price_per_hour": (base.price_per_hour_usd, base.device.price_per_hour_usd, "USD/h")}
    own |= {"mtbf": (base.mtbf_s, base.device.mtbf_s, "s"), "storage_write": (base.storage_write_Bps, None, "B/s")}
    lines += [
        f"  {name}: {value:.17g} {unit}" for name, (value, usual, unit) in own.items() if value not in (None, usual)
    ]
    return lines


def _kept(link: Link) -> list[str]:
    """A link of the file that the cluster came from, as it was."""
    lines = [f"  {json.dumps(link.name)}:", f"    latency: {link.latency_s:.17g} s"]
    lines += [f"    bandwidth: {link.bandwidth_Bps:.17g} B/s", f"    achieved: {link.achieved_frac:.17g}"]
    for word, frac in (("lowest", link.lowest_frac), ("highest", link.highest_frac)):
        lines += [] if frac is None else [f"    {word}: {frac:.17g}"]
    if link.reduce_s_per_B > 0:
        lines.append(f"    reduce_bandwidth: {1 / link.reduce_s_per_B:.17g} B/s")
    if link.start_s > 0:
        lines.append(f"    start: {link.start_s:.17g} s")
    for word, rate_Bps in (("copy", link.copy_Bps), ("kept", link.kept_Bps)):
        lines += [] if rate_Bps is None else [f"    {word}_bandwidth: {rate_Bps:.17g} B/s"]
    if link.switch is not None:
        lines.append(f"    switch: {{{_switch(link.switch)}}}")
    known = link.provenance.get("latency_s")
    if known is not None and known.kind == "measured" and known.date:
        lines.append(f"    measured: {json.dumps(known.date)}")
    return [*lines, *([f"    source: {json.dumps(known.text)}"] if known is not None else [])]


def _switch(switch: Switch) -> str:
    words = f"latency: {switch.latency_s:.17g} s, achieved: {switch.achieved_frac:.17g}, start: {switch.start_s:.17g} s"
    words += f", piece: {switch.piece_B:.17g} B" if switch.piece_B else ""
    return f"{words}, sums_to: {'owner' if switch.to_owner else 'everyone'}"


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
    told = [f"lockstep fit of {fit.points.source}", *fit.points.notes]
    if fit.left_out is not None:
        told.append(f"leave-one-out error {fit.left_out[0]:.2%} (median), {fit.left_out[1]:.2%} (largest)")
    if level.link.name != UNKNOWN:
        wire = format_bandwidth(level.link.bandwidth_Bps)
        told.append(f"{format_bandwidth(rate_Bps)} per link of the {wire} of {level.link.name}")
    return ", ".join(told)
