"""Devices, links and clusters by name: those that ship with Lockstep, and clusters of a user's YAML file.

`machine(name, number)`: one machine of so many devices, joined as the catalog's machines of that device are.

The first node of the catalog that holds so many says which link joins them. Cards without a link of their own talk over
PCIe, through the host, so that a machine of them may hold more than its node in the catalog does.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.units import format_bandwidth, parse_integer
from lockstep.describe.hardware import shipped
from lockstep.describe.hardware.cluster import Cluster, Level, Shelf
from lockstep.describe.hardware.device import ONE_KIND, Device
from lockstep.describe.hardware.link import Host, Link
from lockstep.describe.hardware.meant import meant
from lockstep.describe.hardware.shipped import shelf
from lockstep.describe.hardware.source import Source

MOST_CARDS = 8
"""PCIe cards of one machine: what servers for them hold, as the catalog's a100-pcie and h100-pcie."""
PCIE = "pcie4"
"""Assumed for a device that no node of the catalog holds."""
OTHERWISE = "it is not in the catalog (lockstep catalog clusters); a YAML file describes any machine"
"""Hint for an unknown cluster."""
JOINERS = re.compile(r"\s*[+,&]\s*|\s+and\s+")
"""What people write between two machines."""


def machine(shelf: Shelf, device: Device, number: int) -> Cluster:
    """One machine of `number` devices as a cluster of one level. Raises BadInput when no machine holds so many."""
    like = [found for found in shelf.clusters.values() if found.device == device]
    found = next((one for one in like if _most(one) >= number), None)
    if found is None and (like or number > MOST_CARDS):
        most = max(map(_most, like), default=MOST_CARDS)
        several = f"; {like[0].name}:N is N machines" if like else ""
        raise BadInput(f"no machine of the catalog joins {number} {device.name}, at most {most}{several}")
    inside = found.levels[0] if found else Level("node", 1, device.host_link or shelf.links[PCIE])
    asked = Source("user", f"one machine of {number} {device.name}", "")
    sources = {"levels.node.size": asked}
    for field in ("price_per_hour_usd", "mtbf_s"):
        if field in device.provenance:
            sources[field] = device.provenance[field]
    like_name = f"as in {found.name}" if found else "assumed"
    level = replace(inside, name="node", size=number)
    rate = format_bandwidth(level.link.rate_Bps)
    joined = f", joined by {level.link.name} ({rate} each way per device, {like_name})" if number > 1 else ""
    return Cluster(
        name=device.name,
        device=device,
        levels=(level,),
        price_per_hour_usd=device.price_per_hour_usd,
        mtbf_s=device.mtbf_s,
        host=_host(device, number, found),
        notes=(f"one machine of {number} {device.name}{joined}",),
        provenance=sources,
    )


def _host(device: Device, number: int, found: Cluster | None) -> Host | None:
    """The machine's memory and ports: the catalog's, shared by the cards that its node does not hold."""
    if found is None or found.host is None:
        return None if device.host_link is None else Host(device.host_link, devices=number)
    return replace(found.host, devices=number) if number > found.levels[0].size else found.host


def _most(found: Cluster) -> int:
    """Devices that one machine like the cluster's may hold."""
    inside = found.levels[0]
    return max(inside.size, MOST_CARDS) if inside.link.name.startswith("pcie") else inside.size


def device(name: str) -> Device:
    """The device `name` of the catalog, or of another package. Raises UnknownName."""
    return shipped.devices().get(name)


def link(name: str) -> Link:
    """The link `name` of the catalog, or of another package. Raises UnknownName."""
    return shipped.links().get(name)


def cluster(name_or_path: str | Path, gpus: int | None = None) -> Cluster:
    """The cluster `dgx-h100:64` (64 nodes; one without `:64`), or that of a YAML file; `gpus` overrides its size.

    A device's name is one machine of so many of them: `rtx-4090:4`. Raises BadInput when `gpus` does not fill whole
    nodes, unless it is less than one node.
    """
    name = str(name_or_path)
    _refuse_mixed(name)
    base, _, count = name.partition(":")
    found, devices = shelf().clusters.get(base), shipped.devices()
    named = found is not None or base in devices.own
    if not named and (name.lower().endswith((".yaml", ".yml")) or os.path.isfile(name)):
        from lockstep.describe.hardware.shipped import read_cluster

        found, base, count = read_cluster(name), name, ""
    if found is None and base in devices:
        asked = _number(name, count, "devices") if base != name else 1
        return machine(shelf(), devices.get(base), asked if gpus is None else gpus)
    if found is None:
        why = f"did you mean {said}?" if (said := meant(name)) else None
        raise UnknownName("cluster", base, [*shelf().clusters, *devices.names()], why=why, otherwise=OTHERWISE)
    if gpus is not None:
        return found.resized(gpus)
    if base != name:
        per_node = found.devices_per_child(len(found.levels) - 1)
        return found.resized(_number(name, count, "nodes") * per_node)
    return found


def _number(name: str, count: str, what: str) -> int:
    """What stands behind the colon of a name. Raises BadInput, which says the whole name."""
    try:
        return parse_integer(count)
    except BadInput as wrong:
        raise BadInput(f"{name!r}: number of {what} after the colon: {wrong.message}") from None


def _refuse_mixed(name: str) -> None:
    """Raises BadInput when a name joins several machines: `h100-sxm:4+rtx-4090:4`."""
    parts = JOINERS.split(name)
    if len(parts) < 2:
        return
    bases = [part.partition(":")[0] for part in parts]
    if not set(bases) <= {*shelf().clusters, *shipped.devices().names()}:
        return
    if len(set(bases)) == 1:
        raise BadInput(f"{name} names {bases[0]} {len(parts)} times; give one number: {bases[0]}:N")
    raise BadInput(f"{name} mixes {' and '.join(bases)}; {ONE_KIND}; use one kind at a time, such as {parts[0]}")


def machines(number: int, vendors: Sequence[str] | None = None) -> dict[str, Cluster]:
    """A machine of `number` devices for every device of `vendors` that a machine holds so many of, the cheapest first.

    By name and number: `rtx-4090:1`. Devices whose price is not known come last.
    """
    found: dict[str, Cluster] = {}
    for one in sorted(devices(), key=lambda one: (one.price_per_hour_usd or math.inf, one.name)):
        if vendors is None or one.vendor in vendors:
            with suppress(BadInput):
                found[f"{one.name}:{number}"] = machine(shelf(), one, number)
    return found


def devices() -> tuple[Device, ...]:
    """Every device of the catalog, in its order, then those of other packages."""
    return shipped.devices().every()


def links() -> tuple[Link, ...]:
    """Every link of the catalog, in its order, then those of other packages."""
    return shipped.links().every()


def clusters() -> tuple[Cluster, ...]:
    """Every cluster of the catalog with one node, in its order."""
    return tuple(shelf().clusters.values())
