"""Devices, links and clusters by name: those that ship with Lockstep, and clusters of a user's YAML file."""

from __future__ import annotations

import os
from pathlib import Path

from lockstep.errors import UnknownName
from lockstep.hardware.cluster import Cluster
from lockstep.hardware.device import Device
from lockstep.hardware.link import Link
from lockstep.hardware.machine import machine
from lockstep.hardware.shipped import shelf
from lockstep.units import parse_integer

OTHERWISE = "it is not in the catalog (lockstep catalog clusters); a YAML file describes any machine"
"""Said of a cluster that is not known."""


def device(name: str) -> Device:
    """The catalog's device `name`. Raises UnknownName."""
    found = shelf().devices.get(name)
    if found is None:
        raise UnknownName("device", name, list(shelf().devices))
    return found


def link(name: str) -> Link:
    """The catalog's link `name`. Raises UnknownName."""
    found = shelf().links.get(name)
    if found is None:
        raise UnknownName("link", name, list(shelf().links))
    return found


def cluster(name_or_path: str | Path, gpus: int | None = None) -> Cluster:
    """The cluster `dgx-h100:64` (64 nodes; one without `:64`), or that of a YAML file; `gpus` overrides its size.

    A device's name is one machine of so many of them: `rtx-4090:4`. Raises BadInput when `gpus` does not fill whole
    nodes, unless it is less than one node.
    """
    name = str(name_or_path)
    base, _, count = name.partition(":")
    if base in shelf().devices and base not in shelf().clusters:
        asked = parse_integer(count if base != name else 1, f"{name}: number of devices after the colon")
        return machine(shelf(), shelf().devices[base], asked if gpus is None else gpus)
    found = shelf().clusters.get(base)
    if found is None and (name.lower().endswith((".yaml", ".yml")) or os.path.isfile(name)):
        from lockstep.hardware.userfile import read_cluster

        found, base, count = read_cluster(name), name, ""
    if found is None:
        raise UnknownName("cluster", base, [*shelf().clusters, *shelf().devices], otherwise=OTHERWISE)
    if gpus is not None:
        return found.resized(gpus)
    if base != name:
        per_node = found.devices_per_child(len(found.levels) - 1)
        return found.resized(parse_integer(count, f"{name}: number of nodes after the colon") * per_node)
    return found


def devices() -> tuple[Device, ...]:
    """Every device of the catalog, in its order."""
    return tuple(shelf().devices.values())


def links() -> tuple[Link, ...]:
    """Every link of the catalog, in its order."""
    return tuple(shelf().links.values())


def clusters() -> tuple[Cluster, ...]:
    """Every cluster of the catalog with one node, in its order."""
    return tuple(shelf().clusters.values())
