"""Devices, links and clusters by name: those that ship with Lockstep, and clusters of a user's YAML file."""

from __future__ import annotations

import os
from pathlib import Path

from lockstep.errors import UnknownName
from lockstep.hardware import shipped
from lockstep.hardware.cluster import Cluster
from lockstep.hardware.device import Device
from lockstep.hardware.link import Link
from lockstep.hardware.machine import machine
from lockstep.hardware.shipped import shelf
from lockstep.units import parse_integer

OTHERWISE = "it is not in the catalog (lockstep catalog clusters); a YAML file describes any machine"
"""Said of a cluster that is not known."""


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
    base, _, count = name.partition(":")
    found, devices = shelf().clusters.get(base), shipped.devices()
    named = found is not None or base in devices.own
    if not named and (name.lower().endswith((".yaml", ".yml")) or os.path.isfile(name)):
        from lockstep.hardware.userfile import read_cluster

        found, base, count = read_cluster(name), name, ""
    if found is None and base in devices:
        asked = parse_integer(count if base != name else 1, f"{name}: number of devices after the colon")
        return machine(shelf(), devices.get(base), asked if gpus is None else gpus)
    if found is None:
        raise UnknownName("cluster", base, [*shelf().clusters, *devices.names()], otherwise=OTHERWISE)
    if gpus is not None:
        return found.resized(gpus)
    if base != name:
        per_node = found.devices_per_child(len(found.levels) - 1)
        return found.resized(parse_integer(count, f"{name}: number of nodes after the colon") * per_node)
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
