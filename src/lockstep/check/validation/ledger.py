"""`first_sight`: the ledger of tables that were asked once before anything was changed for them (`first_sight.toml`).

Errors of tables that are in the validation are in sample: the code was written and mended beside their rows, also where
no constant was fitted to them. What a table says at first sight is the error that a user of another machine, model or
program meets. Entries are read and never computed again; `tools/first_sight/ask.py` makes new ones.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.errors import UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.shown import Shown

STEP = "step"
"""The quantity of tables of training steps, whose errors are quoted."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of the times of some rows, predicted / measured - 1."""

    rows: int
    median_abs_frac: float
    median_signed_frac: float
    """Negative where steps are predicted too fast."""
    mean_signed_frac: float
    coverage_frac: float
    """Share inside the interval that every answer carries."""
    fits_frac: float
    """Share of the layouts, all of which ran, that fit in memory here."""


@dataclass(frozen=True, slots=True)
class Group(Errors):
    """A part of a table's rows."""

    name: str


@dataclass(frozen=True, slots=True)
class Sight(Errors):
    """What one commit answered to one table."""

    table: str
    title: str
    source: str
    question: str
    """What was asked of a row beside what it says."""
    date: str
    """The day on which it was asked, ISO 8601."""
    commit: str
    """The first eight digits of the commit that was asked."""
    first: bool
    """Whether no earlier entry asks the same table."""
    quantity: str
    """What was predicted: a step, or of generation a token or the first token."""
    choice_frac: float | None
    """What the layout predicted fastest takes more than the one measured fastest, in the mean over jobs."""
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Ledger(Shown):
    """The entries that were asked for, in the order in which they were made."""

    entries: tuple[Sight, ...]

    @property
    def first(self) -> tuple[Sight, ...]:
        """The first entry of every table."""
        return tuple(one for one in self.entries if one.first)

    @property
    def quoted(self) -> tuple[Sight, ...]:
        """Those of training steps; where none of them was asked for, all."""
        return tuple(one for one in self.first if one.quantity == STEP) or self.first

    @property
    def median_abs_frac(self) -> float:
        """Median over the quoted tables of the median error of each at first sight."""
        return float(np.median([one.median_abs_frac for one in self.quoted]))

    @property
    def coverage_frac(self) -> float:
        """Share of their rows inside the 90 % interval, every table weighing the same."""
        return float(np.mean([one.coverage_frac for one in self.quoted]))

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "median_abs_frac coverage_frac entries")


def first_sight(tables: Iterable[str] | None = None) -> Ledger:
    """The ledger, of the named tables or of all. Raises UnknownName."""
    found = shipped_table("lockstep.check.validation", "first_sight.toml")
    known = found["tables"]
    chosen = list(known) if tables is None else list(tables)
    for name in chosen:
        if name not in known:
            raise UnknownName("table", name, known)
    entries = [_sight(entry, found) for entry in found["entries"] if entry["table"] in chosen]
    return Ledger(tuple(entries))


def _sight(entry: Json, found: Json) -> Sight:
    """An entry with what is said of its table."""
    same = [one for one in found["entries"] if one["table"] == entry["table"]]
    own = {"quantity": STEP, **found["tables"][entry["table"]], "choice_frac": None, **entry}
    own["groups"] = tuple(Group(**group) for group in entry["groups"])
    return Sight(**own, first=entry is same[0])
