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

from lockstep.errors import UnknownName
from lockstep.lab.findings import Check, Findings
from lockstep.types.plain import Json, picked

_TABLE = Path(__file__).with_name("claims.csv")
_HEAD = """# Claims, and the experiments that decide them

What the literature, textbooks and common advice say about how many steps training takes, as the
[lab](../use/converge.md) finds it. Each claim is upheld or refuted by checks of the named experiment in every test
run; `lockstep converge EXPERIMENT --plot a.png` draws it. Ids are those of the collection of claims that the lab
was built against: A true-or-false statements, T theorems, B proof problems, C exercises, H homework; F, N and A1-2 are
errata of these.

| claim | verdict | experiment | ids |
|---|---|---|---|
"""
_TAIL = """
## Not decided by the lab

- **Other verbs decide** A.3, A.4, A.8, A.11, A.13 to A.15, T5, T10, B.3, B.4, B.6, B.10, B.12, B.13, B.15, B.17, B.19,
  C.1, C.2, C.4, C.5, C.8, C.10 to C.12, C.14, C.17, C.18, C.20 and the table of messages: seconds, bytes, memory and
  failures (`collective`, `messages`, `pipeline`, `overlap`, `balance`, `experts`, `speedup`, `checkpoint`, `campaign`);
  their errata line by line: [claims about seconds, bytes and memory](system-claims.md).
- **Theorems of the literature that no run can decide**: lower bounds over all methods (F14: rounds of convex problems;
  F24: delay without noise) and rates in O (F11, F49 beyond the quadratic).
- **Nothing to run**: errata of wording, units, signs in a proof and names (F05, F06, F19, F27, F39, F64, F92, A12-3,
  A12-7, A16-3, A16-5), and arithmetic on runs without a source (most of N).
"""


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

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "ids statement holds check")


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


def claims_page() -> str:
    """The text of `docs/reference/claims.md`; `python tools/pages.py --write` writes it there."""
    lines = [_HEAD.rstrip("\n")]
    for claim in claims():
        said = claim.statement.replace("|", r"\|")
        lines.append(
            f"| {said} | {'holds' if claim.holds else 'refuted'} | `{claim.experiment}` | {' '.join(claim.ids)} |"
        )
    return "\n".join(lines) + "\n" + _TAIL
