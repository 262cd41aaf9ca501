"""`differences`: in what one training software differs from another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked, plain
from lockstep.describe.stacks.stack import OWN, Stack

KINDS = ("way", "habit", "switch", "field")
SAID = ("name", "software", "release", "source", "date")
"""Fields that change no time and no memory."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One of the KINDS in which two stacks differ: its name, and what each has; None where an option is not set."""

    kind: str
    name: str
    a: Any
    b: Any

    def to_dict(self) -> Json:
        """Plain JSON form; ways with their steps."""
        return picked(self)


def differences(a: Stack, b: Stack) -> tuple[Difference, ...]:
    """Where they differ: ways of slots, habits, switches, and fields that change times."""
    return tuple(_all(a, b))


def _all(a: Stack, b: Stack) -> Iterator[Difference]:
    fields = " ".join(name for name in OWN.split() if name not in SAID)
    for kind, one, other in (
        ("way", a.ways, b.ways),
        ("habit", picked(a.habits), picked(b.habits)),
        ("switch", plain(a.switches), plain(b.switches)),
        ("field", picked(a, fields), picked(b, fields)),
    ):
        for name in dict.fromkeys((*one, *other)):
            if one.get(name) != other.get(name):
                yield Difference(kind, name, one.get(name), other.get(name))
