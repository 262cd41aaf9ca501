"""The catalog of models, `catalog/*.toml`, and `model(name_or_path)`, which also reads a user's own files.

An entry holds the fields of `Transformer` or `ConvNet` (kind = "convnet"), its source and date, and the published
parameter total where there is one: a whole number when it is exact, text such as "175B" when it was rounded.
`[defaults]` of a file underlies each of its entries, nested tables field by field.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from lockstep.errors import BadInput, UnknownName
from lockstep.vocabulary import architecture
from lockstep.workload.architecture import Model, Transformer
from lockstep.workload.from_fields import build
from lockstep.workload.parameters import parameters

FILE_SUFFIXES = (".json", ".yaml", ".yml")
OTHERWISE = "it is not in the catalog (lockstep catalog models); a config.json or a YAML file describes any model"
"""Said of a model that is not known."""


@dataclass(frozen=True, slots=True)
class Published:
    """A total that others print, and where. `exact` is false for a rounded one."""

    text: str
    exact: bool
    source: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One model of the catalog."""

    model: Model
    published: Published | None

    def to_dict(self) -> dict[str, Any]:
        """One row of a listing."""
        counted = parameters(self.model)
        row: dict[str, Any] = {"name": self.model.name, "parameters": counted.total}
        row["active_parameters"] = counted.active
        if isinstance(self.model, Transformer):
            row |= {name: getattr(self.model, name) for name in ("layers", "hidden", "vocab", "max_positions")}
        row |= {"source": self.model.source, "date": self.model.date}
        if self.published:
            row["published_parameters"] = self.published.text
        return row


def _merged(defaults: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """`entry` over `defaults`, tables field by field."""
    result = dict(defaults)
    for key, value in entry.items():
        below = result.get(key)
        result[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def _published(fields: dict[str, Any]) -> Published | None:
    """Takes the published total out of `fields`."""
    total, source = fields.pop("published", None), fields.pop("published_source", "")
    if total is None:
        return None
    return Published(str(total), isinstance(total, int), source or fields["source"])


@cache
def _tables() -> dict[str, dict[str, Any]]:
    """The fields of every entry by name, in the order of files and of entries within them."""
    folder = resources.files("lockstep.workload").joinpath("catalog")
    found: dict[str, dict[str, Any]] = {}
    for file in sorted(folder.iterdir(), key=lambda path: path.name):
        if file.name.endswith(".toml"):
            tables = tomllib.loads(file.read_text(encoding="utf-8"))
            defaults = tables.pop("defaults", {})
            for name, fields in tables.items():
                found[name] = {**_merged(defaults, fields), "name": name}
    return found


@cache
def entry(name: str) -> Entry:
    """The catalog entry called `name`. Raises UnknownName."""
    fields = _tables().get(name)
    if fields is None:
        raise UnknownName("model", name, tuple(_tables()))
    given = dict(fields)
    published = _published(given)
    return Entry(build(given), published)


def names() -> tuple[str, ...]:
    """Every name of the catalog, in its order."""
    return tuple(_tables())


def entries() -> tuple[Entry, ...]:
    """Every model of the catalog, in its order."""
    return tuple(entry(name) for name in names())


def models() -> list[dict[str, Any]]:
    """A row per model of the catalog: name, parameters, shape, source, date."""
    return [each.to_dict() for each in entries()]


def model(name_or_path: str | Path) -> Model:
    """A model by catalog name, Hugging Face `config.json` or own YAML file. Raises BadInput or UnknownName."""
    text = str(name_or_path)
    if text in _tables():
        return entry(text).model
    path = Path(text)
    if path.suffix.lower() in FILE_SUFFIXES:
        from lockstep.workload.huggingface import read_config
        from lockstep.workload.model_file import read_model_file

        return read_config(path) if path.suffix.lower() == ".json" else read_model_file(path)
    if "/" in text or "\\" in text:
        wanted = ", ".join(FILE_SUFFIXES)
        raise BadInput(f"a model file ends in {wanted}; give the config.json itself", text)
    why = architecture(text)
    raise UnknownName("model", text, names(), why=why and f"such models are not supported: {why}", otherwise=OTHERWISE)
