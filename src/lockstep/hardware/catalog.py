"""The catalog of devices, links, nodes and clusters that ships with Lockstep, and look-ups by name.

Every number in `catalog/*.toml` is a pair `["989.4 TFLOP/s", "h100-datasheet"]`: the quantity and the name of an entry
in that file's `[sources]`, which says kind, text and date. A number without a known source does not load.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from pathlib import Path as FilePath
from typing import Any

from lockstep.errors import BadInput, UnknownName
from lockstep.hardware.cluster import Cluster
from lockstep.hardware.device import Device
from lockstep.hardware.link import Link
from lockstep.hardware.shelf import Shelf
from lockstep.hardware.source import Source
from lockstep.units import parse_integer

FILES = ("devices.toml", "links.toml", "clusters.toml")

Path = tuple[str | int, ...]

# Text that names things; everything else in the catalog is a number and needs a source.
NAMING_KEYS = frozenset({"vendor", "efficiency", "device", "link", "node", "name"})


@cache
def shelf() -> Shelf:
    """Everything in the catalog, read once."""
    filled = Shelf()
    for name in FILES:
        text = resources.files("lockstep.hardware").joinpath(f"catalog/{name}").read_text(encoding="utf-8")
        load(text, name, filled)
    return filled


def load(text: str, file: str, filled: Shelf) -> None:
    """Adds the entries of one catalog file to `filled`. Raises BadInput for a number without a source."""
    # Pydantic takes a quarter of the start-up budget, so it is imported with the first look-up.
    from lockstep.documents import Locate, validated
    from lockstep.hardware.build import Builder
    from lockstep.hardware.schema import HardwareFile

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"not valid TOML: {error}", file) from None
    named = {name: Source(**entry) for name, entry in document.pop("sources", {}).items()}
    sources: dict[Path, Source] = {}
    plain = _without_sources(document, (), named, sources, file)
    entries = validated(HardwareFile, plain, Locate(file, {}))
    Builder(filled, lambda path, _: sources[path], lambda *path: _dotted(file, path)).file(entries)


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


def cluster(name: str, gpus: int | None = None) -> Cluster:
    """The cluster `dgx-h100:64` (64 nodes; one without `:64`), or that of a YAML file; `gpus` overrides its size.

    Raises BadInput when `gpus` does not fill whole nodes, unless it is less than one node.
    """
    base, _, count = name.partition(":")
    found = shelf().clusters.get(base)
    if found is None and (name.lower().endswith((".yaml", ".yml")) or FilePath(name).is_file()):
        from lockstep.hardware.userfile import read_cluster

        found, base, count = read_cluster(name), name, ""
    if found is None:
        raise UnknownName("cluster", base, list(shelf().clusters))
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


def _without_sources(value: Any, path: Path, named: dict[str, Source], found: dict[Path, Source], file: str) -> Any:
    """`value` with every [quantity, source] replaced by the quantity; the sources go to `found` by path."""
    if isinstance(value, dict):
        return {key: _without_sources(inner, (*path, key), named, found, file) for key, inner in value.items()}
    if isinstance(value, list) and all(isinstance(inner, dict) for inner in value):
        return [_without_sources(inner, (*path, index), named, found, file) for index, inner in enumerate(value)]
    if isinstance(value, list) and len(value) == 2:
        quantity, name = value
        if name not in named:
            raise UnknownName("source", str(name), list(named), _dotted(file, path))
        found[path] = named[name]
        return quantity
    if isinstance(value, str) and path and path[-1] in NAMING_KEYS:
        return value
    raise BadInput(f'needs a source: write ["{value}", "name-of-source"]', _dotted(file, path))


def _dotted(file: str, path: Path) -> str:
    """A place in a catalog file."""
    return f"{file}: {'.'.join(str(part) for part in path)}"
