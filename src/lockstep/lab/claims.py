"""The field's claims that the lab decides: which experiment, and which of its checks, holds or refutes each.

`claims.csv` has a line each: the ids of the reference collection (A true-or-false statements, T theorems, B proof
problems, C exercises, H homework; F, N and A1-2 their errata), the claim, whether it is true, the experiment, and words
of the checks that decide.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lockstep.errors import UnknownName
from lockstep.lab.findings import Check, Findings

_TABLE = Path(__file__).with_name("claims.csv")


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement, whether it `holds`, and the experiment whose checks with `check` in their words decide it."""

    ids: tuple[str, ...]
    statement: str
    holds: bool
    experiment: str
    check: str

    def evidence(self, found: Findings) -> tuple[Check, ...]:
        """The checks of that experiment's findings that decide."""
        return tuple(
            one for one in found.checks if self.check.lower() in one.what.lower() and one.false_law != self.holds
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {"ids": list(self.ids), "statement": self.statement, "holds": self.holds, "check": self.check}


@cache
def claims() -> tuple[Claim, ...]:
    """All of them, in the order of the table."""
    with _TABLE.open(encoding="utf-8", newline="") as file:
        return tuple(
            Claim(tuple(row["ids"].split()), row["statement"], row["holds"] == "yes", row["experiment"], row["check"])
            for row in csv.DictReader(file)
        )


def find_claims(name: str) -> tuple[Claim, ...]:
    """Those with that id. Raises UnknownName."""
    found = tuple(claim for claim in claims() if name in claim.ids)
    if not found:
        raise UnknownName("claim", name, tuple(dict.fromkeys(one for claim in claims() for one in claim.ids)), "ID")
    return found


def claims_of(experiment: str) -> tuple[Claim, ...]:
    """Those that an experiment decides."""
    return tuple(claim for claim in claims() if claim.experiment == experiment)
