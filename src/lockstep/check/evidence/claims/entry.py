"""`Entry`: one item of the chapter, what it says, whether it is so, and the checks from which that follows.

    range      a number, `<= x` or `>= x`; two of them differ by the gap between them
    agrees     what is found lies within the allowed difference of what is claimed
    allowed    half of the last digit of the right value (whole numbers and bounds are exact), plus the error of a
               simulation
    verdict    of checks: all contradicted, false; all agree, true; otherwise undecided
               of cases: conditional where some are true and some false; ambiguous where the cases are readings
A check also says what it must exclude: the claimed value of a false statement, a rival value of a true one. It has
power when that lies more than four times the allowed difference away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked

POWER = 4.0
"""Least distance of an excluded value, as a multiple of what is allowed."""
EXACT_FRAC = 1e-9
"""Rounding of floats, relative."""
KINDS = {
    "theorem": "T", "statement": "A", "proof": "B", "example": "E", "exercise": "C", "homework": "HW", "guide": "G",
    "missing": "M",
}  # fmt: skip
"""What an item is -> the letter of its numbers."""
VERDICTS = ("true", "false", "conditional", "ambiguous", "sound", "answer", "missing")
"""`sound`: a problem that asks to derive something and assumes nothing wrong."""
PARTS = {"theorem": ("result", "proof"), "proof": ("problem", "solution"), "homework": ("limits", "remark")}
"""What an item is -> what its two verdicts are of; that of the first leads."""
SIGNS = {"<=": (-math.inf, None), ">=": (None, math.inf)}


@dataclass(frozen=True, slots=True)
class Range:
    """What a statement allows: from `low` to `high`, and half of the last digit in which it is written."""

    low: float
    high: float
    half_digit: float = 0.0

    @staticmethod
    def read(written: object) -> Range:
        """A number as it stands in a file, or text such as `<= 0.5`."""
        text = str(written).strip()
        sign, number = (text[:2], text[2:].strip()) if text[:2] in SIGNS else ("", text)
        value = float(number)
        half = 0.5 * 10.0 ** _exponent(number) if math.isfinite(value) and not sign else 0.0
        low, high = SIGNS.get(sign, (None, None))
        return Range(value if low is None else low, value if high is None else high, half)

    def gap(self, other: Range) -> float:
        """Distance to another range, 0 where they meet."""
        if self.low == other.low and self.high == other.high:
            return 0.0
        return max(self.low - other.high, other.low - self.high, 0.0)

    def away(self, value: float) -> float:
        """Distance of a value, 0 inside."""
        return 0.0 if self.low == value == self.high else max(self.low - value, value - self.high, 0.0)

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.low:.6g}"
        return f"at most {self.high:.6g}" if math.isinf(self.low) else f"at least {self.low:.6g}"


def _exponent(number: str) -> float:
    """Power of ten of the last digit; none for a whole number, which is exact."""
    exponent = Decimal(number).as_tuple().exponent
    whole = "." not in number and "e" not in number.lower()
    return -math.inf if whole or not isinstance(exponent, int) else exponent


@dataclass(frozen=True, slots=True)
class Found:
    """What a decider found: the value and the error of a simulation, 0 where nothing is random."""

    value: float
    error: float = 0.0
    doubt: str = ""
    """Which of its laws the experiment that found it broke; nothing where all held, as for a decider."""


@dataclass(frozen=True, slots=True)
class Check:
    """One number: what is claimed, what is right, and what decides it."""

    what: str
    by: str
    """Decider and its arguments, `lab EXPERIMENT: CHECK` or `= ARITHMETIC`."""
    claimed: Range
    right: Range
    rival: Range | None = None
    """A value that would be found if a true statement were not so."""
    nature: str = ""
    """How the number comes about, where it is not that of its decider (`deciders.table.nature_of`)."""
    at: str = ""
    """Lines of the text that print the claimed value, or from which it follows."""
    follows: str = ""
    """How the claimed value follows, or under which condition it is said, where the lines do not print it so."""

    @property
    def refutes(self) -> bool:
        """Whether the right value contradicts the claimed one."""
        return self.claimed.gap(self.right) > 0

    @property
    def excluded(self) -> Range | None:
        """The value that this check must tell from the right one."""
        return self.claimed if self.refutes else self.rival

    def allowed(self, found: Found) -> float:
        """Largest difference between what is found and what is right."""
        size = max((abs(bound) for bound in (self.right.low, self.right.high) if math.isfinite(bound)), default=0.0)
        return self.right.half_digit + found.error + EXACT_FRAC * size

    def as_known(self, found: Found) -> bool:
        """Whether the right value was found, and by an experiment that agrees with all of its laws."""
        return not found.doubt and self.right.away(found.value) <= self.allowed(found)

    def has_power(self, found: Found) -> bool:
        """Whether the excluded value is too far away to be taken for the right one."""
        return self.excluded is not None and self.right.gap(self.excluded) > POWER * self.allowed(found)

    def agrees(self, found: Found) -> bool:
        """Whether what is found is what is claimed."""
        return self.claimed.away(found.value) <= self.allowed(found)


@dataclass(frozen=True, slots=True)
class Case:
    """Under which condition, or in which reading, the item is true or false."""

    when: str
    verdict: str
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class Second:
    """The other thing of an item that has a verdict: a problem's printed solution, a result's proof."""

    says: str
    verdict: str
    checks: tuple[Check, ...] = ()

    def derived(self, found: Mapping[Check, Found]) -> str:
        """The verdict that follows: conditional where some of its numbers agree; as it stands where it has none."""
        return _verdict(self.checks, found, "conditional") if self.checks else self.verdict


@dataclass(frozen=True, slots=True)
class Deliverable:
    """One thing that an exercise asks for, and what ticks it: a figure, a number of the card, or both."""

    asks: str
    figure: str = ""
    """Name of the picture that shows it."""
    value: str = ""
    """`what` of the check that finds it."""


@dataclass(frozen=True, slots=True)
class Erratum:
    """A wrong number or formula of the chapter: `id` is that of its item and a number, `B.14/1`."""

    id: str
    severity: str
    printed: str
    right: str
    check: Check | None = None
    why: str = ""
    """What it rests on where nothing can be computed."""
    at: str = ""
    """Lines of the text that print it."""

    @property
    def of(self) -> str:
        """Id of the item."""
        return self.id.partition("/")[0]

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "id severity printed right why at") | {"runs": self.check is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One item. `checks` are of the printed statement, `truths` of its true form."""

    id: str
    kind: str
    title: str
    says: str
    """The statement in words that need no other page."""
    verdict: str
    printed: str = ""
    """What the chapter's key or text says of it: true, false, or nothing where it only proves or computes."""
    because: str = ""
    true_form: str = ""
    source: str = ""
    names: tuple[str, ...] = ()
    command: str = ""
    """What a user runs to see the number."""
    learn: str = ""
    """Page of the documentation."""
    program: str = ""
    """A file of `examples/` that does right on real processes what a listing of the text does."""
    see: tuple[str, ...] = ()
    picture: str = ""
    checks: tuple[Check, ...] = ()
    truths: tuple[Check, ...] = ()
    cases: tuple[Case, ...] = ()
    readings: bool = False
    """Whether the cases are readings of one sentence rather than conditions."""
    second: Second | None = None
    """Of an item with two verdicts the other one (`PARTS`)."""
    argument: str = ""
    """A short proof of what is right, or a counterexample to what is not."""
    deliverables: tuple[Deliverable, ...] = ()
    """Of an exercise, in the order in which they are asked for."""

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the pictures that it has of its own: those of deliverables, each once."""
        own = (self.picture, *(one.figure for one in self.deliverables))
        return tuple(dict.fromkeys(filter(None, own)))

    def ticks(self, found: Mapping[Check, Found] | None) -> list[bool | None]:
        """Of every deliverable whether its number came out as known; None where nothing ran or it has a figure only."""
        if found is None:
            return [None] * len(self.deliverables)
        outcome = {check.what: check in found and check.as_known(found[check]) for check in self.every_check()}
        return [outcome[one.value] if one.value else None for one in self.deliverables]

    def every_check(self) -> tuple[Check, ...]:
        """Those of the statement and its cases, of what else has a verdict, and of the true form."""
        return (*self.claimed_checks(), *self.truths)

    def claimed_checks(self) -> tuple[Check, ...]:
        """Those of which the text claims a value."""
        cases = (check for case in self.cases for check in case.checks)
        return (*self.checks, *cases, *(self.second.checks if self.second else ()))

    def verdicts(self, lead: str) -> dict[str, str]:
        """What the verdicts are of and each verdict, the given one first; nothing for an item with one."""
        return dict(zip(PARTS[self.kind], (lead, self.second.verdict), strict=True)) if self.second else {}

    def derived(self, found: Mapping[Check, Found]) -> str:
        """The verdict that follows from what was found; `undecided` where it does not come out as known."""
        if not all(check in found and check.as_known(found[check]) for check in self.every_check()):
            return "undecided"
        if self.second and self.second.derived(found) != self.second.verdict:
            return "undecided"
        if not self.cases:
            return _verdict(self.checks, found) if self.checks else self.verdict
        verdicts = [_verdict(case.checks, found) for case in self.cases]
        if verdicts != [case.verdict for case in self.cases]:
            return "undecided"
        if len(set(verdicts)) < 2:
            return verdicts[0]
        return "ambiguous" if self.readings else "conditional"

    def to_dict(self) -> Json:
        """Plain JSON form of the card."""
        return {
            "id": self.id,
            "statement": self.says,
            **picked(self, "kind title printed verdict because true_form argument source command program see learn"),
            "cases": [picked(case, "when verdict") for case in self.cases],
            "verdicts": self.verdicts(self.verdict),
            "second": self.second.says if self.second else "",
        }


def _verdict(checks: Sequence[Check], found: Mapping[Check, Found], mixed: str = "undecided") -> str:
    agrees = {check.agrees(found[check]) for check in checks}
    return {frozenset([True]): "true", frozenset([False]): "false"}.get(frozenset(agrees), mixed)
