"""Facts of the lab: statements about convergence that an experiment, and certain of its checks, holds or refutes.

`facts.csv` has a line each: an id of the group and a few words (`staleness.delay-limit`), the statement, whether it is
so, the experiment, and words of the checks that decide.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from lockstep.base.errors import UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.learn.lab.findings import Check, Findings

_TABLE = Path(__file__).with_name("facts.csv")


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement, whether it `holds`, and the experiment whose checks with `check` in their words decide it."""

    id: str
    statement: str
    holds: bool
    experiment: str
    check: str

    def evidence(self, found: Findings) -> tuple[Check, ...]:
        """The checks of that experiment's findings that decide."""
        return tuple(
            one for one in found.checks if self.check.lower() in one.what.lower() and one.false_law != self.holds
        )

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "id statement holds check")


@cache
def facts() -> tuple[Fact, ...]:
    """All of them, in the order of the table."""
    with _TABLE.open(encoding="utf-8", newline="") as file:
        return tuple(
            Fact(row["id"], row["statement"], row["holds"] == "yes", row["experiment"], row["check"])
            for row in csv.DictReader(file)
        )


def find_fact(name: str) -> Fact:
    """The one of that id. Raises UnknownName."""
    for one in facts():
        if one.id == name:
            return one
    raise UnknownName("fact of the lab", name, tuple(one.id for one in facts()), "ID")


def facts_of(experiment: str) -> tuple[Fact, ...]:
    """Those that an experiment decides."""
    return tuple(one for one in facts() if one.experiment == experiment)
