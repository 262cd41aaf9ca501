"""`Source`: where a number comes from and what kind of number it is."""

from __future__ import annotations

import math
from collections.abc import Mapping

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked

KINDS = ("datasheet", "measured", "fitted", "assumed", "user")


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of one number."""

    kind: str
    """datasheet (the vendor says so), measured, fitted (to measurements), assumed, or user (given by the user)."""
    text: str
    """The document, table or place, and what was derived from it."""
    date: str
    """When it was true, as YYYY, YYYY-MM or YYYY-MM-DD; empty for numbers given by the user."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownName("kind of source", self.kind, KINDS)
        if not self.text:
            raise BadInput("a source needs a description")

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


Provenance = Mapping[str, Source]


def check_positive(owner: str, **numbers: float | None) -> None:
    """Raises BadInput naming the first of `numbers` that is given and not positive and finite."""
    for name, number in numbers.items():
        if number is not None and not (math.isfinite(number) and number > 0):
            raise BadInput(f"{owner}: {name} must be positive and finite, got {number:g}")
