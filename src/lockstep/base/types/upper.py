"""Packages that a package may not import and needs when somebody asks: views of an answer, the page, the catalog.

Imports go down only, so `lockstep/__init__.py`, which stands above all packages, says where each of them is.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

_PLACES: dict[str, str] = {}


def stands_at(**places: str) -> None:
    """Says in which module each thing is, by the name that those who may not import it call it by."""
    _PLACES.update(places)


def upper(name: str) -> ModuleType:
    """The module of that name, loaded now."""
    return import_module(_PLACES[name])
