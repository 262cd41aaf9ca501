"""`Shelf`: everything that the catalog holds, or that a user's file defines, by name."""

from __future__ import annotations

from dataclasses import dataclass, field

from lockstep.hardware.cluster import Cluster, Level
from lockstep.hardware.device import Device
from lockstep.hardware.host import Host
from lockstep.hardware.link import Link
from lockstep.hardware.source import Source


@dataclass(frozen=True, slots=True)
class Node:
    """A kind of node: its device, the levels inside it, and the sources of their numbers."""

    device: Device
    levels: tuple[Level, ...]
    sources: dict[str, Source]
    host: Host | None = None


@dataclass(frozen=True, slots=True)
class Shelf:
    """Named things, each in the order of its file."""

    devices: dict[str, Device] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    clusters: dict[str, Cluster] = field(default_factory=dict)
