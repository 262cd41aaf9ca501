"""Rooms above that rooms below need when somebody looks: views of an answer, the page.

Imports go down only, so `lockstep/__init__.py`, which stands above all rooms, says where each of them is.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

_PLACES: dict[str, str] = {}


def stands_at(**places: str) -> None:
    """Says in which module each thing of an upper room is, by the name that lower rooms call it by."""
    _PLACES.update(places)


def upper(name: str) -> ModuleType:
    """The module of that name, loaded now."""
    return import_module(_PLACES[name])
