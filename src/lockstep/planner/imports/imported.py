"""`Imported`: what a file of other training software says of a run, in Lockstep's words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lockstep.errors import BadInput
from lockstep.types.plain import Json
from lockstep.workload import Model

MOST_SETTINGS = 20_000
"""Of a file; more are taken for a mistake, or for aliases of aliases."""
Followed = Callable[[int], object]
"""A word that follows from the number of devices."""


@dataclass(slots=True)
class Imported:
    """The words of a question and of a layout, by keyword; what is as Lockstep has it anyway is left out."""

    software: str
    words: Json = field(default_factory=dict)
    layout: Json = field(default_factory=dict)
    model: str | Model | None = None
    unread: list[str] = field(default_factory=list)
    """Settings that may change the answer and have no word here."""

    def set(self, words: Json, **values: object) -> None:
        """Adds the words that have a value."""
        words |= {name: value for name, value in values.items() if value is not None}

    def degrees(self, **values: int) -> None:
        """Adds the degrees above one."""
        self.layout |= {name: value for name, value in values.items() if value > 1}

    def missing(self, names: Iterable[str], said: Mapping[str, object]) -> None:
        """Notes those of `names` that are said and switched on."""
        self.unread += [f"{name}={said[name]}" for name in names if said.get(name) not in (None, False, 0, "", "none")]

    @property
    def dense_ranks(self) -> int:
        """Ranks of one replica."""
        return int(self.layout.get("tp", 1) * self.layout.get("pp", 1) * self.layout.get("cp", 1))

    def replicas(self, devices: int) -> int:
        """Data-parallel replicas on that many devices. Raises BadInput where they do not fit."""
        if devices % self.dense_ranks:
            raise BadInput(f"tp*pp*cp = {self.dense_ranks} does not divide the {devices} devices", "--cluster")
        return devices // self.dense_ranks

    def sentence(self, name: str) -> str:
        """What was read, for the reader of an answer."""
        said = {**self.words, **self.layout}
        read = ", ".join(
            f"{key} {'by the number of devices' if callable(value) else value}" for key, value in said.items()
        )
        left = f"; without a word here and left out: {', '.join(self.unread)}" if self.unread else ""
        return f"read from {name} ({self.software}): {read or 'nothing'}{left}"


def integer(said: Mapping[str, Any], name: str, default: int = 1) -> int:
    """A whole number among settings. Raises BadInput."""
    value = said.get(name)
    if value is None or value == "auto":
        return default
    try:
        return int(value)
    except (TypeError, ValueError):
        raise BadInput(f"{name} must be a whole number, got {str(value)[:40]!r}", "MODEL") from None


def flat(data: Mapping[str, Any], above: str = "") -> Json:
    """Nested mappings as one, keys joined by dots."""
    found: Json = {}
    for name, value in data.items():
        path = f"{above}.{name}" if above else str(name)
        found |= flat(value, path) if isinstance(value, dict) else {path: value}
        if len(found) > MOST_SETTINGS:
            raise BadInput(f"has more than {MOST_SETTINGS:,} settings", "MODEL")
    return found
