"""Which level of a cluster a measurement crossed, and what one link of that level carried.

A fit gives the rate B of one rank by the flat price of its collective. Ranks of one host talk over the innermost level.
Among hosts with one rank each, B is the rate of a rank's own links. With several ranks per host a ring runs in channels
that leave the host through all its adapters, and B is what leaves the host (`collectives/levels/ring.py`). A catalog
counts links per child of a level (the NICs of a node), shared by its devices: the rate of one link is what leaves the
child over the links its devices reach.
"""

from __future__ import annotations

from lockstep.errors import BadInput
from lockstep.hardware import Cluster
from lockstep.measure.fit.fit import LinkFit
from lockstep.measure.fit.hosts import Hosts
from lockstep.measure.fit.points import LIBRARY
from lockstep.units import format_bandwidth

UNKNOWN = "unknown"
"""Name of a link whose wire rate nobody knows."""


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
            f"what was measured is another level, or not {base.name}",
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
