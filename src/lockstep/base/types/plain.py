"""Plain data: the type of a JSON object, and results in that form. Importing this loads no NumPy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""A JSON object, as `to_dict` returns it."""


def plain(value: object) -> Any:
    """`value` by its own `to_dict` where it has one; other dataclasses, mappings, sequences and arrays part by part."""
    # Long lists are of these; asking an abstract class first takes twenty times as long.
    if value is None or type(value) in (int, float, str, bool):
        return value
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(part) for part in value]
    return picked(value) if is_dataclass(value) else value


def picked(result: object, names: str = "", *, without: str = "") -> Json:
    """The attributes of a result called `names`, one text with spaces between them, in that order and in plain form.

    Where no names are given, all fields of a dataclass but those called `without`.
    """
    every: Any = result
    chosen = names.split() or [field.name for field in fields(every) if field.name not in without.split()]
    return {name: plain(getattr(result, name)) for name in chosen}


def as_written(value: Any) -> Any:
    """Plain data as JSON gives it back: lists for tuples, text for the keys of objects, numpy's numbers as numbers."""
    return json.loads(json.dumps(value, default=written_value))


def written_value(value: object) -> Any:
    """A value that JSON has no form for, in plain form. Raises TypeError where it has none."""
    found = plain(value)
    if found is value:
        raise TypeError(f"{type(value).__name__} is not plain data")
    return found
