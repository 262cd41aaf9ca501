"""Hardware that a user describes in YAML; the schema is in `schema.py`."""

from __future__ import annotations

from pathlib import Path as FilePath

from lockstep.documents import read_yaml, validated
from lockstep.errors import BadInput
from lockstep.hardware.build import Builder, Path
from lockstep.hardware.cluster import Cluster
from lockstep.hardware.schema import HardwareFile
from lockstep.hardware.shelf import Shelf
from lockstep.hardware.shipped import devices, links, shelf
from lockstep.hardware.source import Source


def read_hardware(path: str | FilePath) -> Shelf:
    """What a YAML file defines, by name; its cluster is called by its `name`, or else by the file's."""
    data, locate = read_yaml(path)
    entries = validated(HardwareFile, data, locate)
    known = shelf()
    filled = Shelf(dict(known.devices), dict(known.links), dict(known.nodes))

    def source_of(place: Path, text: str | None) -> Source:
        return Source("user", text or f"given in {locate(*place)}", "")

    builder = Builder(filled, source_of, locate, {"device": devices(), "link": links()})
    builder.file(entries)
    if entries.cluster is not None:
        name = entries.cluster.name or FilePath(path).stem
        filled.clusters[name] = builder.cluster(name, entries.cluster, ("cluster",))
    return Shelf(
        {name: filled.devices[name] for name in entries.devices},
        {name: filled.links[name] for name in entries.links},
        {name: filled.nodes[name] for name in entries.nodes},
        filled.clusters,
    )


def read_cluster(path: str | FilePath) -> Cluster:
    """The one cluster of a YAML file."""
    found = read_hardware(path).clusters
    if len(found) != 1:
        what = f"defines {len(found)} clusters" if found else "defines no cluster"
        raise BadInput(f"{what}; one `cluster:` is needed", str(path))
    (only,) = found.values()
    return only
