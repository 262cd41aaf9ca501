"""`arguments(target)`: the names that the software of an export takes, by table, with the version they are from.

A table is data, one TOML file per target, written by `tools/argument_tables.py` from the software's own parser or
config classes. A name has a type (int, float, str, bool, flag, list, dict, any; int+ takes several) or its choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.errors import UnknownName
from lockstep.base.records import dataclass

KINDS: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str, bool),
    "bool": (bool,),
    "list": (list, tuple),
    "dict": (dict,),
}
"""Python types of what a file holds; a switch may be written as text there, as Accelerate's are."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What one version of the software takes."""

    version: str
    source: str
    names: Mapping[str, str | tuple[str, ...]]
    """Name to its type, or its choices; keys of a section are joined by dots."""

    def misfit(self, name: str, value: object) -> str | None:
        """Why `name` with `value` is not taken; None where it is. Values of a command line are text."""
        if name not in self.names:
            return str(UnknownName(f"argument of {self.version}", name, self.names, "--to"))
        kind = self.names[name]
        if isinstance(kind, tuple):
            return None if value is None or str(value) in kind else f"{name} takes {', '.join(kind)}, not {value}"
        return None if _fits(kind, value) else f"{name} takes {kind}, not {value!r}"


def _fits(kind: str, value: Any) -> bool:
    if kind == "any" or value is None:
        return True
    if kind.endswith("+"):
        return all(_fits(kind[:-1], one) for one in (value if isinstance(value, tuple | list) else (value,)))
    if kind in ("int", "float") and isinstance(value, str):
        try:
            return bool({"int": int, "float": float}[kind](value) is not None)
        except ValueError:
            return False
    if kind == "flag":
        return value is True
    return isinstance(value, KINDS[kind]) and not (isinstance(value, bool) and kind in ("int", "float"))


@cache
def arguments(target: str) -> Arguments:
    """The names that the software of `target` takes."""
    data = shipped_table(__name__, f"{target}.toml")
    names = {name: tuple(kind) if isinstance(kind, list) else kind for name, kind in data["names"].items()}
    return Arguments(data["version"], data["source"], names)


__all__ = ["Arguments", "arguments"]
