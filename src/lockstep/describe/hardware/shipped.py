"""Reads the catalog that ships with Lockstep: devices, links, nodes and clusters, every number with its source.

A number in `catalog/*.toml` is a pair `["989.4 TFLOP/s", "h100-datasheet"]`: the quantity and the name of an entry
in that file's `[sources]`, which says kind, text and date. A number without a known source does not load.

`read_hardware`: what a user describes in YAML. The schema of both is in `schema.py`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path as FilePath
from typing import Any, TypeVar

from lockstep.base import units
from lockstep.base.documents.files import File, read_text
from lockstep.base.documents.shipped import kept_object, shipped_table
from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.registry import Registry
from lockstep.describe.hardware.cluster import Cluster, Shelf
from lockstep.describe.hardware.device import Device
from lockstep.describe.hardware.link import Link
from lockstep.describe.hardware.source import Source

FILES = ("links.toml", "devices.toml", "clusters.toml")
Path = tuple[str | int, ...]
T = TypeVar("T")

# Text that names things; everything else in the catalog is a number and needs a source.
NAMING_KEYS = frozenset(
    {"vendor", "efficiency", "device", "link", "node", "name", "host_link", "successors", "sums_to"}
)
MOST_B = 2**20
"""Of a file."""
UNITS = FilePath(units.__file__)


@cache
def shelf() -> Shelf:
    """Everything in the catalog, read once per version of it."""
    here = FilePath(__file__)
    return kept_object(here, [*sorted(here.parent.rglob("*.py")), *sorted(here.parent.rglob("*.toml")), UNITS], _shelf)


def _shelf() -> Shelf:
    """Everything in the catalog, validated and built."""
    filled = Shelf()
    for name in FILES:
        _add(shipped_table("lockstep.describe.hardware", "catalog", name), name, filled)
    return filled


@cache
def devices() -> Registry[Device]:
    """The catalog's devices, and those that other packages offer in the group `lockstep.devices`."""
    return _registry("device", "lockstep.devices", Device, shelf().devices)


@cache
def links() -> Registry[Link]:
    """The catalog's links, and those that other packages offer in the group `lockstep.links`."""
    return _registry("link", "lockstep.links", Link, shelf().links)


def _registry(what: str, group: str, kind: type[T], own: Mapping[str, T]) -> Registry[T]:
    registry = Registry(what, group, kind)
    registry.own.update(own)
    return registry


def read_catalog(path: str | FilePath) -> Shelf:
    """What a file in the form of the catalog defines, on top of the catalog: for packages that offer hardware.

    Every number is a pair of quantity and source. Raises BadInput.
    """
    known = shelf()
    filled = Shelf(dict(known.devices), dict(known.links), dict(known.nodes), dict(known.clusters))
    load(read_text(path, MOST_B), str(path), filled)
    return filled


def load(text: str, file: str, filled: Shelf) -> None:
    """Adds the entries of one catalog file to `filled`. Raises BadInput for a number without a source."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"not valid TOML: {error}", file) from None
    _add(document, file, filled)


def _add(document: dict[str, Any], file: str, filled: Shelf) -> None:
    """Adds the entries of one parsed catalog file to `filled`."""
    # Pydantic takes a quarter of the start-up budget, so it is imported with the first look-up.
    from lockstep.base.documents import Locate, validated
    from lockstep.describe.hardware.build import Builder
    from lockstep.describe.hardware.schema import HardwareFile

    named = {name: Source(**entry) for name, entry in document.pop("sources", {}).items()}
    sources: dict[Path, Source] = {}
    plain = _without_sources(document, (), named, sources, file)
    entries = validated(HardwareFile, plain, Locate(file, {}))
    Builder(filled, lambda path, _: sources[path], lambda *path: _dotted(file, path)).file(entries)


def _without_sources(value: object, path: Path, named: dict[str, Source], found: dict[Path, Source], file: str) -> Any:
    """`value` with every [quantity, source] replaced by the quantity; the sources go to `found` by path."""
    if isinstance(value, dict):
        return {key: _without_sources(inner, (*path, key), named, found, file) for key, inner in value.items()}
    if path and path[-1] in NAMING_KEYS and isinstance(value, str | list):
        return value
    if isinstance(value, list) and all(isinstance(inner, dict) for inner in value):
        return [_without_sources(inner, (*path, index), named, found, file) for index, inner in enumerate(value)]
    if isinstance(value, list) and len(value) == 2:
        quantity, name = value
        if name not in named:
            raise UnknownName("source", str(name), list(named), _dotted(file, path))
        found[path] = named[name]
        return quantity
    raise BadInput(f'needs a source: write ["{value}", "name-of-source"]', _dotted(file, path))


def _dotted(file: str, path: Path) -> str:
    """A place in a catalog file."""
    return f"{file}: {'.'.join(str(part) for part in path)}"


def read_hardware(path: File) -> Shelf:
    """What a YAML file defines, by name; its cluster is called by its `name`, or else by the file's."""
    from lockstep.base.documents import read_yaml, validated
    from lockstep.describe.hardware.build import Builder
    from lockstep.describe.hardware.schema import HardwareFile

    data, locate = read_yaml(path)
    entries = validated(HardwareFile, data, locate)
    known = shelf()
    filled = Shelf(dict(known.devices), dict(known.links), dict(known.nodes))

    def source_of(place: Path, text: str | None) -> Source:
        return Source("user", text or f"given in {locate(*place)}", "")

    builder = Builder(filled, source_of, locate, {"device": devices(), "link": links()})
    builder.file(entries)
    if entries.cluster is not None:
        name = entries.cluster.name or FilePath(str(path)).stem
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
