"""Results in plain JSON form: numbers, text, lists and mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockstep.types.plain import Json


def plain(value: object) -> Any:
    """`value` by its own `to_dict` where it has one, mappings and sequences part by part, anything else as it is."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, tuple | list) else value


def picked(result: object, names: str) -> Json:
    """The attributes of a result called `names`, one text with spaces between them, in that order and in plain form."""
    return {name: plain(getattr(result, name)) for name in names.split()}
