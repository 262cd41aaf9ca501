"""Turns validated entries of the schema into devices, links and clusters, each number with its source."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass, field
from lockstep.base.registry import Registry
from lockstep.describe.hardware.cluster import Cluster, Level, Node, Shelf
from lockstep.describe.hardware.device import Device, Efficiency, efficiency
from lockstep.describe.hardware.link import Host, Link, Switch
from lockstep.describe.hardware.pace import paced
from lockstep.describe.hardware.schema import (
    ClusterEntry,
    CurveEntry,
    DeviceEntry,
    HardwareFile,
    HostEntry,
    LevelEntry,
    LinkEntry,
    NodeEntry,
    SwitchEntry,
)
from lockstep.describe.hardware.source import Source

Path = tuple[str | int, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Builder:
    """Builds on top of a shelf of known things. `source_of(path)` says where the number at a path comes from."""

    shelf: Shelf
    source_of: Callable[[Path, str | None], Source]
    where: Callable[..., str]
    offered: Mapping[str, Registry[Any]] = field(default_factory=dict)
    """Where to look for a device or a link that is not on the shelf."""

    def file(self, entries: HardwareFile) -> None:
        """Puts everything that a file defines on the shelf; its own names hide those of the shelf."""
        for name, link in entries.links.items():
            self.shelf.links[name] = self.link(name, link, ("links", name))
        for name, device in entries.devices.items():
            self.shelf.devices[name] = self.device(name, device, ("devices", name))
        for name, node in entries.nodes.items():
            self.shelf.nodes[name] = self.node(node, ("nodes", name))
        for name, cluster in entries.clusters.items():
            self.shelf.clusters[name] = self.cluster(name, cluster, ("clusters", name))

    def device(self, name: str, entry: DeviceEntry, path: Path) -> Device:
        """A device from its entry."""
        numbers = {
            "memory_B": ("memory", entry.memory),
            "memory_bandwidth_Bps": ("memory_bandwidth", entry.memory_bandwidth),
            "tdp_W": ("tdp", entry.tdp),
            "price_per_hour_usd": ("price_per_hour", entry.price_per_hour),
            "mtbf_s": ("mtbf", entry.mtbf),
        }
        sources = self._sources(numbers, path, entry.source)
        port = entry.host_link
        for dtype in entry.peak_flops:
            sources[f"peak_flops.{dtype}"] = self.source_of((*path, "peak_flops", dtype), entry.source)
        return Device(
            name=name,
            vendor=entry.vendor,
            peak_flops={str(dtype): rate for dtype, rate in entry.peak_flops.items()},
            efficiency=self._curve(name, entry.efficiency, path),
            provenance=sources,
            memory_B=entry.memory,
            memory_bandwidth_Bps=entry.memory_bandwidth,
            tdp_W=entry.tdp,
            price_per_hour_usd=entry.price_per_hour,
            mtbf_s=entry.mtbf,
            successors=tuple(entry.successors),
            host_link=None if port is None else self._find("link", port, self.shelf.links, (*path, "host_link")),
        )

    def _curve(self, device: str, reference: str | CurveEntry, path: Path) -> Efficiency:
        """A curve of the catalog, or the device's own."""
        if isinstance(reference, CurveEntry):
            return Efficiency(name=device, devices=(device,), **reference.model_dump())
        try:
            return efficiency(reference)
        except UnknownName as error:
            raise UnknownName("efficiency curve", error.given, error.allowed, self.where(*path, "efficiency")) from None

    def link(self, name: str, entry: LinkEntry, path: Path) -> Link:
        """A link from its entry."""
        given = entry.model_fields_set
        numbers = {
            "latency_s": ("latency", entry.latency),
            "bandwidth_Bps": ("bandwidth", entry.bandwidth),
            "achieved_frac": ("achieved", entry.achieved if "achieved" in given else None),
            "lowest_frac": ("lowest", entry.lowest),
            "highest_frac": ("highest", entry.highest),
            "reduce_s_per_B": ("reduce_bandwidth", entry.reduce_bandwidth),
            "start_s": ("start", entry.start if "start" in given else None),
            "copy_Bps": ("copy_bandwidth", entry.copy_bandwidth),
            "kept_Bps": ("kept_bandwidth", entry.kept_bandwidth),
        }
        sources = self._sources(numbers, path, entry.source)
        if "achieved" not in given:
            sources["achieved_frac"] = Source("assumed", "not given, so the full wire rate is taken", "")
        sources |= self._switch_sources(entry.switch, path)
        ends = entry.lowest or entry.achieved, entry.achieved, entry.highest or entry.achieved
        if list(ends) != sorted(ends):
            said = "lowest {:g}, achieved {:g} and highest {:g} must rise".format(*ends)
            raise BadInput(said, self.where(*path))
        if entry.measured is not None:
            sources = {field: Source("measured", source.text, entry.measured) for field, source in sources.items()}
        return Link(
            name=name,
            latency_s=entry.latency,
            bandwidth_Bps=entry.bandwidth,
            achieved_frac=entry.achieved,
            lowest_frac=entry.lowest,
            highest_frac=entry.highest,
            reduce_s_per_B=1.0 / entry.reduce_bandwidth if entry.reduce_bandwidth else 0.0,
            start_s=entry.start,
            copy_Bps=entry.copy_bandwidth,
            kept_Bps=entry.kept_bandwidth,
            switch=_switch(entry),
            provenance=sources,
        )

    def _switch_sources(self, entry: SwitchEntry | None, path: Path) -> dict[str, Source]:
        """The sources of what a switch that reduces does."""
        names = ("latency", "achieved", "start", "piece") if entry is not None else ()
        given = [name for name in names if entry is not None and name in entry.model_fields_set]
        return {f"switch.{name}": self.source_of((*path, "switch", name), None) for name in given}

    def node(self, entry: NodeEntry, path: Path) -> Node:
        """A node from its entry."""
        levels, sources = self._levels(entry.levels, path)
        device = self._device_of(entry.device, path)
        inside = math.prod(level.size for level in levels)
        return Node(device, levels, sources, self._host(entry.host, device, inside, path))

    def cluster(self, name: str, entry: ClusterEntry, path: Path) -> Cluster:
        """A cluster from its entry; prices and failure rates that it does not give are those of its device."""
        levels, level_sources = self._levels(entry.levels, path)
        if entry.node is not None:
            node = self._find("node", entry.node, self.shelf.nodes, (*path, "node"))
            inside = math.prod(level.size for level in node.levels)
            device, levels, sources = node.device, node.levels + levels, {**node.sources, **level_sources}
            host = node.host if entry.host is None else self._host(entry.host, device, inside, path)
        else:
            device, sources = self._device_of(entry.device, path), level_sources
            host = self._host(entry.host, device, levels[0].size, path)
        if entry.pace is not None:
            device = paced(device, entry.pace)
        numbers = {
            "price_per_hour_usd": ("price_per_hour", entry.price_per_hour),
            "mtbf_s": ("mtbf", entry.mtbf),
            "storage_write_Bps": ("storage_write", entry.storage_write),
            "own_rank_spread_frac": ("rank_spread", entry.rank_spread),
        }
        inherited = {
            key: device.provenance[key] for key in ("price_per_hour_usd", "mtbf_s") if key in device.provenance
        }
        sources = {**inherited, **sources, **self._sources(numbers, path, entry.source)}
        return self._located(
            path,
            lambda: Cluster(
                name=name,
                device=device,
                levels=levels,
                price_per_hour_usd=entry.price_per_hour or device.price_per_hour_usd,
                mtbf_s=entry.mtbf or device.mtbf_s,
                storage_write_Bps=entry.storage_write,
                own_rank_spread_frac=entry.rank_spread,
                host=host,
                provenance=sources,
            ),
        )

    def _host(self, entry: HostEntry | None, device: Device, inside: int, path: Path) -> Host | None:
        """The machine around `inside` devices; None where neither it nor the device names a link to it."""
        here, entry = (*path, "host"), entry or HostEntry()
        found = device.host_link if entry.link is None else self._link_of(entry.link, "host", here)
        if found is None and entry.model_fields_set:
            raise BadInput(f"give `link`, as {device.name} does not state how it reaches its host", self.where(*here))
        if found is None:
            return None
        numbers = {
            "memory_B": ("memory", entry.memory),
            "memory_bandwidth_Bps": ("memory_bandwidth", entry.memory_bandwidth),
        }
        sources = self._sources(numbers, here, entry.source)
        for name in ("devices", "devices_per_link"):
            if name in entry.model_fields_set:
                sources[name] = self.source_of((*here, name), entry.source)
        if "devices_per_link" not in entry.model_fields_set:
            sources["devices_per_link"] = Source("assumed", "not given, so every device has a link of its own", "")
        return self._located(
            here,
            lambda: Host(
                link=found,
                devices=entry.devices or inside,
                devices_per_link=entry.devices_per_link,
                memory_B=entry.memory,
                memory_bandwidth_Bps=entry.memory_bandwidth,
                provenance=sources,
            ),
        )

    def _levels(self, entries: list[LevelEntry], path: Path) -> tuple[tuple[Level, ...], dict[str, Source]]:
        """Levels with the sources of their sizes and link counts."""
        levels, sources = [], {}
        for index, entry in enumerate(entries):
            here: Path = (*path, "levels", index)
            link = self._link_of(entry.link, entry.name, here)
            levels.append(Level(entry.name, entry.size, link, entry.links, entry.links_per_group, entry.crowding))
            sources[f"levels.{entry.name}.size"] = self.source_of((*here, "size"), None)
            fields = {"links": "links_per_child", "links_per_group": "links_per_group", "crowding": "crowding"}
            for word in (word for word in fields if word in entry.model_fields_set):
                sources[f"levels.{entry.name}.{fields[word]}"] = self.source_of((*here, word), None)
        return tuple(levels), sources

    def _device_of(self, reference: str | DeviceEntry | None, path: Path) -> Device:
        """A device by name or given in place."""
        here = (*path, "device")
        if isinstance(reference, DeviceEntry):
            return self.device(str(path[-1]) + "-device", reference, here)
        return self._find("device", str(reference), self.shelf.devices, here)

    def _link_of(self, reference: str | LinkEntry, owner: str, path: Path) -> Link:
        """A link by name or given in place, which is then called after its owner."""
        here = (*path, "link")
        if isinstance(reference, LinkEntry):
            return self.link(f"{owner}-link", reference, here)
        return self._find("link", reference, self.shelf.links, here)

    def _find(self, what: str, name: str, known: dict[str, T], path: Path) -> T:
        """The thing called `name`. Raises a located UnknownName."""
        if name in known:
            return known[name]
        others = self.offered.get(what)
        if others is not None and name in others:
            return cast(T, others.get(name, self.where(*path)))
        raise UnknownName(what, name, [*known, *(others.names() if others else ())], self.where(*path))

    def _sources(self, numbers: dict[str, tuple[str, float | None]], path: Path, text: str | None) -> dict[str, Source]:
        """The source of every number that is given, by the name of the core's field."""
        return {
            target: self.source_of((*path, key), text) for target, (key, value) in numbers.items() if value is not None
        }

    def _located(self, path: Path, make: Callable[[], T]) -> T:
        """What `make` returns; a BadInput without a place gets this one."""
        try:
            return make()
        except BadInput as error:
            raise BadInput(error.message, error.where or self.where(*path)) from None


def _switch(entry: LinkEntry) -> Switch | None:
    """The switch behind a link, if it reduces."""
    if (found := entry.switch) is None:
        return None
    return Switch(found.latency, found.achieved, found.start, found.sums_to == "owner", found.piece)
