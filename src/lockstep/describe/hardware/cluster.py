"""`Cluster`: devices in a hierarchy of levels, innermost first, and how the devices share the links of each level.

Level i joins `size` children; a child of level 0 is a device, a child of level i is a whole unit of level i-1. Each
child has `links_per_child` links, shared by its devices_per_child(i) devices, so when all of them talk at once

    bandwidth_per_device_Bps(i) = links_per_child * rate / devices_per_child(i)

A DGX H100 node has 8 GPUs and 8 NICs of 50 GB/s: 50 GB/s per GPU; with 4 NICs it would be 25 GB/s; with the 32 NICs of
12.5 GB/s of an AWS p5 it is 50 GB/s again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field, replace
from lockstep.base.types.arrays import Number, Whole
from lockstep.base.types.brief import Brief
from lockstep.base.types.plain import Json, picked
from lockstep.base.units import format_bandwidth, format_flops, format_size
from lockstep.describe.hardware.device import Device
from lockstep.describe.hardware.link import Host, Link, Rates, Switch
from lockstep.describe.hardware.source import Provenance, Source, check_positive

GroupLevel: TypeAlias = tuple[Whole, float, Number, float, Switch | None, float, Rates | None]
"""What `Cluster.group_levels` gives for each level."""
HOST_STREAM_FRAC = 0.45
"""Share of the memory's datasheet rate that an update on the host reaches: 2.57 s for Adam on 10B parameters, 30 bytes
each, on a DGX-2 with 256 GB/s (ZeRO-Offload, arXiv 2101.06840, table of CPU-Adam); on other hosts assumed."""
MAX_DEVICES = 10_000_000
MOST_SPREAD = 0.2
"""Devices that differ more are of different types."""
LARGEST_WHOLE = 16
"""Servers of up to so many devices are used whole; of a larger unit (a rack, a pod) schedulers hand out parts."""


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the hierarchy: `size` children joined by `links_per_child` links each."""

    name: str
    size: int
    link: Link
    links_per_child: int = 1
    links_per_group: int | None = None
    """Links of a child that one collective uses, however many of its ranks sit there; None uses their share of all."""
    crowding: float = 0.0
    """How n children that talk at once disturb one another: each has (2/n)^crowding of its rate. 0 where each has a way
    of its own, 1 where all share one; more where a shared one gets slower by it."""

    def __post_init__(self) -> None:
        for name in ("size", "links_per_child", "links_per_group"):
            if (number := getattr(self, name)) is None:
                continue
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise BadInput(f"level {self.name}: {name} must be a whole number of at least 1, got {number!r}")
        if self.crowding != 0:
            check_positive(f"level {self.name}", crowding=self.crowding)

    def uncrowded_frac(self, children: Whole) -> Number:
        """Of its rate, what each of so many children has when all talk at once; broadcasts."""
        return (2 / np.maximum(children, 2)) ** self.crowding if self.crowding else 1.0

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True, repr=False)
class Cluster(Brief):
    """Equal devices in a hierarchy of levels, innermost first. Optional numbers are None where unknown."""

    name: str
    device: Device
    levels: tuple[Level, ...]
    price_per_hour_usd: float | None = None
    """Per device and hour."""
    mtbf_s: float | None = None
    """Mean time between failures that interrupt a job, per device, its share of node and network included."""
    storage_write_Bps: float | None = None
    """Rate at which the whole cluster can write a checkpoint to shared storage."""
    own_rank_spread_frac: float | None = None
    """Standard deviation of the devices' speeds over their mean; None uses that of their efficiency curve."""
    host: Host | None = None
    """The machines that the devices sit in; None where nothing is known of them, so that nothing can be offloaded."""
    notes: tuple[str, ...] = ()
    """What was chosen where the question left it open; answers list it among their assumptions."""
    provenance: Provenance = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        owner = f"cluster {self.name}"
        if not self.levels:
            raise BadInput(f"{owner}: needs at least one level")
        names = [level.name for level in self.levels]
        if len(set(names)) != len(names):
            raise BadInput(f"{owner}: two levels have the same name in {', '.join(names)}")
        check_positive(owner, price_per_hour_usd=self.price_per_hour_usd, mtbf_s=self.mtbf_s)
        check_positive(owner, storage_write_Bps=self.storage_write_Bps)
        if not 0 <= self.rank_spread_frac <= MOST_SPREAD:
            raise BadInput(f"{owner}: rank_spread must be from 0 to {MOST_SPREAD:.0%}, got {self.rank_spread_frac:g}")
        if self.num_devices > MAX_DEVICES:
            raise BadInput(f"{owner}: {self.num_devices} devices are more than the {MAX_DEVICES} allowed")

    @property
    def rank_spread_frac(self) -> float:
        """Standard deviation of the devices' speeds over their mean: ranks wait for the slowest."""
        found = self.own_rank_spread_frac
        return self.device.efficiency.rank_spread_frac if found is None else found

    @property
    def num_devices(self) -> int:
        """Devices in the whole cluster."""
        return math.prod(level.size for level in self.levels)

    @property
    def num_nodes(self) -> int:
        """Units of the innermost level."""
        return max(1, self.num_devices // self.devices_per_unit(0))

    def devices_per_child(self, level: int) -> int:
        """Devices inside one child of `level`: 1 for the innermost."""
        return math.prod(inner.size for inner in self.levels[: self._index(level)])

    def devices_per_unit(self, level: int) -> int:
        """Devices inside one whole unit of `level`: a node's GPUs for the node level."""
        return self.devices_per_child(level) * self.levels[level].size

    def bandwidth_per_device_Bps(self, level: int) -> float:
        """Achieved bytes per second and direction of one device at `level` when all devices of a child talk at once."""
        here = self.levels[self._index(level)]
        share = here.links_per_child / self.devices_per_child(level)
        return here.link.rate_Bps * share

    def link_per_device(self, level: int) -> Link:
        """The link that one device sees at `level`, its share of the links already taken: ready for cost formulas."""
        return replace(
            self.levels[self._index(level)].link.effective(), bandwidth_Bps=self.bandwidth_per_device_Bps(level)
        )

    def group_levels(self, children: Sequence[Whole]) -> list[GroupLevel]:
        """(children, latency_s, Bps of one rank, reduce_s_per_B, switch, start_s, rates) per level, innermost first.

        `children[i]`: how many children of level i a group of ranks spans, when all groups of its kind talk at once.
        """
        found = list[GroupLevel]()
        for level, (here, one) in enumerate(zip(children, self.levels, strict=True)):
            own_Bps, it = self._group_Bps(level, children), one.link
            rates = it.rates_among(here, own_Bps)
            found.append((here, it.latency_s, own_Bps, it.reduce_s_per_B, it.effective_switch, it.start_s, rates))
        return found

    def _group_Bps(self, level: int, children: Sequence[Whole]) -> Number:
        """Bytes per second of one rank of a group at a level."""
        here = self.levels[level]
        share_Bps = self.bandwidth_per_device_Bps(level) * here.uncrowded_frac(children[level])
        if here.links_per_group is None:
            return share_Bps
        members = math.prod(children[:level])
        return np.minimum(share_Bps, here.links_per_group * here.link.rate_Bps / members)

    def levels_between(self, ranks: Sequence[int]) -> list[GroupLevel]:
        """`group_levels` of these ranks, of which rank i has device i. Of uneven parts the larger counts."""
        units = [self.devices_per_child(level) for level in range(len(self.levels))]
        parts = [len({rank // unit for rank in ranks}) for unit in (*units, self.num_devices)]
        return self.group_levels([-(-inner // outer) for inner, outer in itertools.pairwise(parts)])

    def levels_of(self, devices: Whole) -> list[GroupLevel]:
        """`group_levels` of so many consecutive devices; broadcasts.

        They fill whole units of every level where their children at all levels multiply to `devices`.
        """
        units = [self.devices_per_child(level) for level in range(len(self.levels))]
        inside = [np.minimum(unit, devices) for unit in (*units, self.num_devices)]
        return self.group_levels([unit // child for child, unit in itertools.pairwise(inside)])

    @property
    def devices_per_host(self) -> int:
        """Devices of this cluster that share one machine's host memory. Raises BadInput where no host is known."""
        return min(self.known_host.devices, self.num_devices)

    @property
    def host_bandwidth_Bps(self) -> float:
        """Achieved bytes per second and direction between a device and host memory when all devices move at once."""
        return self.known_host.rate_Bps(self.devices_per_host)

    @property
    def host_update_Bps(self) -> float:
        """Bytes per second that an update on a device's share of the host reaches; infinite where that is unknown."""
        rate_Bps = self.known_host.memory_bandwidth_Bps
        return math.inf if rate_Bps is None else HOST_STREAM_FRAC * rate_Bps / self.devices_per_host

    @property
    def known_host(self) -> Host:
        """The host. Raises BadInput where it is not known."""
        if self.host is None:
            raise BadInput(
                f"cluster {self.name} does not describe its hosts, so nothing can be offloaded to them; give "
                "`host: {link: pcie5, memory: 2 TB}` in its file, or drop --offload",
                "--offload",
            )
        return self.host

    def level_spanned(self, extent_devices: ArrayLike) -> NDArray[np.intp]:
        """Index of the innermost level whose unit holds `extent_devices` consecutive devices. Broadcasts.

        A group of g ranks, each `stride` ranks from the next, has extent g * stride.
        """
        units = [self.devices_per_unit(level) for level in range(len(self.levels))]
        return np.minimum(np.searchsorted(units, extent_devices), len(units) - 1)

    def resized(self, num_devices: int) -> Cluster:
        """The same cluster with `num_devices` devices: inner levels as full as they are here, the outermost as needed.

        Fewer devices than one unit make one smaller unit: 4 of a node of 8 are one node of 4. Of units larger than
        LARGEST_WHOLE a part may be used, the same of each: 512 are 64 of the 72 in each of 8 racks. Raises BadInput
        when the devices do not fill whole units of every inner level.
        """
        if isinstance(num_devices, bool) or not isinstance(num_devices, int) or num_devices < 1:
            raise BadInput(f"cluster {self.name}: number of devices must be at least 1, got {num_devices!r}")
        levels, notes, left = [], [], num_devices
        links_frac = 1.0
        for index, level in enumerate(self.levels):
            size = left if index == len(self.levels) - 1 else min(level.size, left)
            resized = replace(level, links_per_child=self._links_in_use(index, links_frac))
            links_frac = 1.0
            if left % size:
                size = self._part(index, left, num_devices)
                links_frac = size / level.size
                notes.append(self._part_note(index, size))
            levels.append(replace(resized, size=size))
            left //= size
        asked = Source("user", f"follows from {num_devices} devices asked for", "")
        changed = {f"levels.{new.name}.size": asked for old, new in zip(self.levels, levels, strict=True) if old != new}
        kept = () if levels[:-1] != list(self.levels[:-1]) else self.notes
        return replace(self, levels=tuple(levels), notes=(*kept, *notes), provenance={**self.provenance, **changed})

    def _part(self, index: int, units: int, num_devices: int) -> int:
        """Children per unit of a level that share `units` evenly, if that leaves less than half of them idle."""
        level = self.levels[index]
        size = next(size for size in range(level.size, 0, -1) if units % size == 0)
        if level.size <= LARGEST_WHOLE or 2 * size <= level.size:
            raise BadInput(self._partial(level, units, num_devices))
        return size

    def _part_note(self, index: int, size: int) -> str:
        """The note on a level that is partly used."""
        level, inside = self.levels[index], self.devices_per_child(index)
        used = f"{size * inside} of the {level.size * inside} devices of each {level.name}"
        return f"{used} are used, so that all hold the same number; the others are neither counted nor paid for"

    def _links_in_use(self, index: int, used_frac: float) -> int:
        """Links per child of a level when `used_frac` of its devices are used: those of idle devices are idle too."""
        links = self.levels[index].links_per_child
        own = used_frac < 1 and links >= self.devices_per_child(index)
        return max(1, int(links * used_frac)) if own else links

    @property
    def links_range(self) -> tuple[Cluster, Cluster]:
        """The cluster with every link at the least, and at the most, that it may reach; itself where that is known."""
        used = [level.link for level in self.levels if level.size > 1] + ([self.host.link] if self.host else [])
        if all(link.range_frac == (link.achieved_frac, link.achieved_frac) for link in used):
            return self, self
        return self._reaching(0), self._reaching(1)

    def _reaching(self, end: int) -> Cluster:
        levels = tuple(replace(level, link=level.link.reaching(level.link.range_frac[end])) for level in self.levels)
        host = self.host and replace(self.host, link=self.host.link.reaching(self.host.link.range_frac[end]))
        return replace(self, levels=levels, host=host)

    def describe(self) -> str:
        """One line: devices, their memory and rate, and what joins them at each level."""
        device = self.device
        best = "bf16" if "bf16" in device.peak_flops else max(device.peak_flops, key=lambda k: device.peak_flops[k])
        parts = [
            f"{self.num_devices} x {device.name} ({format_size(device.memory_B)},"
            f" {format_flops(device.peak(best))} {best})"
        ]
        for index, level in enumerate(self.levels):
            rate = format_bandwidth(self.bandwidth_per_device_Bps(index))
            shared = f" ({level.links_per_child} per {self.levels[index - 1].name})" if index else ""
            parts.append(f"{level.name} of {level.size}: {level.link.name}{shared}, {rate} per device")
        return "; ".join(parts)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(
            self,
            "name num_devices device levels price_per_hour_usd mtbf_s storage_write_Bps rank_spread_frac host "
            "provenance",
        )

    def _index(self, level: int) -> int:
        """`level`, checked: negative indices would silently mean something else."""
        if not 0 <= level < len(self.levels):
            raise BadInput(f"cluster {self.name} has levels 0 to {len(self.levels) - 1}, not {level}")
        return level

    def _partial(self, level: Level, units: int, num_devices: int) -> str:
        """The message for `units` children that do not fill whole units of `level`."""
        unit = self.devices_per_unit(self.levels.index(level))
        below, above = num_devices // unit * unit, -(-num_devices // unit) * unit
        return (
            f"{num_devices} devices do not fill whole units of level {level.name!r} ({unit} devices each) of"
            f" {self.name}; try {below} or {above}"
        )


@dataclass(frozen=True, slots=True)
class Node:
    """A kind of node: its device, the levels inside it, and the sources of their numbers."""

    device: Device
    levels: tuple[Level, ...]
    sources: dict[str, Source]
    host: Host | None = None


@dataclass(frozen=True, slots=True)
class Shelf:
    """Everything that the catalog holds, or that a user's file defines, by name, each in the order of its file."""

    devices: dict[str, Device] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    clusters: dict[str, Cluster] = field(default_factory=dict)
