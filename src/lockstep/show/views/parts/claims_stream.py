"""Items of the book as they are decided: a line each for a person, or the JSON object piece by piece."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.documents import SCHEMA
from lockstep.base.records import dataclass, field
from lockstep.base.types.plain import plain
from lockstep.check.evidence.claims.entry import PARTS
from lockstep.show.views.parts.output import finite
from lockstep.show.views.parts.terminal import console

if TYPE_CHECKING:
    from lockstep.check.evidence.claims.decide import Decided
    from lockstep.show.verbs.claims import Claims

STYLES = {
    "true": "green", "false": "red", "conditional": "yellow", "ambiguous": "yellow", "undecided": "bold red",
    "missing": "dim", "answer": "cyan", "sound": "green",
}  # fmt: skip
WORDS = {"answer": "has an answer", "missing": "is not in the chapter"}


def headline(one: Decided) -> Text:
    """The item with its verdict, or with both."""
    entry = one.entry
    verdict = WORDS.get(one.verdict, f"is {one.verdict}")
    said = Text.assemble((f"{entry.id} ", "bold"), (verdict, STYLES[one.verdict]))
    if entry.second:
        said.append(f", its {PARTS[entry.kind][1]} ")
        said.append(entry.second.verdict, STYLES[entry.second.verdict])
    return said.append(f": {entry.title}", "bold")


@dataclass(slots=True)
class Stream:
    """What hears of a run; `decided` prints an item as soon as it is decided, in the order in which that happens."""

    as_json: bool
    told: list[str] = field(default_factory=list)
    """Ids of the items that were printed."""

    def __call__(self, done: int, total: int) -> None:
        """Nothing: the items that come say how far it is."""

    def decided(self, one: Decided) -> None:
        """Prints one more item."""
        if self.as_json:
            begin = ", " if self.told else f'{{"schema": {SCHEMA}, "claims": ['
            sys.stdout.write(begin + _text(one.to_dict()))
        else:
            console().print(headline(one))
        sys.stdout.flush()
        self.told.append(one.entry.id)

    def end(self, found: Claims) -> None:
        """The items that were not decided and the end of the JSON object."""
        for one in found.entries:
            if one.entry.id not in self.told:
                self.decided(one)
        rest = {name: value for name, value in found.to_dict().items() if name != "claims"}
        sys.stdout.write(f"], {_text(rest)[1:]}\n")


def _text(value: object) -> str:
    return json.dumps(finite(plain(value)), allow_nan=False, ensure_ascii=False)
