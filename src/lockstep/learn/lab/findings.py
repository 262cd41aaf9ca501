"""`Findings`: what an experiment saw, the laws beside it, and whether the two agree.

Every `Check` has a `Domain`, the settings for which it holds, so that nobody adds a check without asking:
    ALWAYS                                              every setting that the experiment takes
    when(settings.delay > 0, "a delay")                 some; elsewhere the check is left out and says so
    example("a = 0.08, momentum 0.9")                   a problem with numbers of its own, which no setting moves
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np

from lockstep.base.records import dataclass, field, replace
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.shown import Shown
from lockstep.simulate.play.sample import student_t

MOST_DIGITS = 17
"""With these every two floats are printed differently."""
CREDIBLE_ERRORS = 4.0
"""Standard errors within which a simulation agrees with a law: a false alarm in 16,000 normal checks."""


@cache
def credible_errors(runs: int = 0, normal: float = CREDIBLE_ERRORS) -> float:
    """The same confidence as `normal` errors, where the standard error is itself estimated from that many runs.

    Student's t; 0 runs: it is known.
    """
    return student_t(NormalDist().cdf(normal), max(runs - 1, 1)) if runs else normal


@dataclass(frozen=True, slots=True)
class Domain:
    """For which settings a check holds.

    `here`: whether the settings of this run are among them; `example`: whether it is about one problem with numbers of
    its own, such as one that is printed somewhere.
    """

    words: str
    here: bool = True
    example: bool = False

    def __and__(self, other: Domain) -> Domain:
        """The settings for which both hold."""
        return Domain(f"{self.words}; {other.words}", self.here and other.here, self.example or other.example)


ALWAYS = Domain("all settings")


def when(here: bool, words: str) -> Domain:
    """Settings that fulfil a condition: `here` whether those of this run do, `words` the condition itself."""
    return Domain(words, bool(here))


def example(words: str) -> Domain:
    """One problem, with the numbers in `words`."""
    return Domain(words, example=True)


@dataclass(frozen=True, slots=True)
class Law:
    """One value that theory gives."""

    name: str
    value: float
    formula: str
    source: str

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True)
class Check:
    """A value that a law gives beside the simulated one, and the settings for which that `holds`.

    They agree within `credible_errors` times `standard_error`, or within `tolerance` where nothing is random, or
    where a formula is an approximation of known size; both add up. `relation`: the simulated value `equals` the one of
    the law, or is `at most` or `at least` that. `false_law`: the law is known to be wrong, and the check is right when
    the simulation contradicts it.
    """

    what: str
    expected: float
    got: float
    standard_error: float = 0.0
    tolerance: float = 0.0
    false_law: bool = False
    relation: str = "equals"
    runs: int = 0
    """Independent runs that `standard_error` is estimated from; 0 where it is known, or from so many that it may be."""
    holds: Domain = field(kw_only=True)

    @property
    def random_error(self) -> float:
        """Largest error that the draws of a simulation may make."""
        return credible_errors(self.runs) * self.standard_error

    @property
    def allowed(self) -> float:
        """Largest difference at which law and simulation agree."""
        return self.random_error + self.tolerance

    @property
    def strain(self) -> float:
        """Difference in the wrong direction as a share of what is allowed; negative on the right side of a bound."""
        return self._difference / self.allowed if self.allowed else float(self._difference > 0)

    @property
    def agrees(self) -> bool:
        """Whether law and simulation agree."""
        return bool(self._difference <= self.allowed)

    @property
    def _difference(self) -> float:
        above = self.got - self.expected
        return {"equals": abs(above), "at most": above, "at least": -above}[self.relation]

    @property
    def ok(self) -> bool:
        """Whether it came out as it should: laws hold, false laws are contradicted."""
        return self.agrees != self.false_law

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "check": self.what,
            **picked(self, "relation expected got standard_error allowed false_law"),
            "holds_for": self.holds.words,
            **picked(self.holds, "example"),
            "ok": self.ok,
        }

    def printed(self, digits: int) -> tuple[str, str]:
        """(expected, got) with that many digits, or with as many as it takes to see them differ where they disagree."""
        while True:
            shown = f"{self.expected:.{digits}g}", f"{self.got:.{digits}g}"
            if self.agrees or shown[0] != shown[1] or digits >= MOST_DIGITS:
                return shown
            digits += 1


def tells(right: float, wrong: float, standard_error: float = 0.0, tolerance: float = 0.0, runs: int = 0) -> Domain:
    """The settings at which a run sees that a law is `wrong`, where the value is really `right`.

    Twice the errors within which a check agrees lie between the two: it is `right` itself that a run must then miss.
    """
    seen = abs(right - wrong) > 2 * credible_errors(runs) * standard_error + tolerance
    return when(seen, "enough runs to distinguish the two laws")


def absent(what: str, words: str) -> Check:
    """A check whose numbers do not exist for these settings; `words`: the settings for which they do."""
    return Check(what, math.nan, math.nan, holds=Domain(words, here=False))


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One line of a picture: `y` over `x`, equally long and finite; theory, or simulated with a 95 % interval."""

    label: str
    x: Array
    y: Array
    half_ci95: Array | None = None
    """Half the width of the interval of every y."""
    theory: bool = False
    diverged_at: float | None = None
    """The x at which the run diverged; the curve ends before it."""
    marks: bool = False
    """Single points instead of a line."""

    @classmethod
    def until_divergence(cls, label: str, x: Array, y: Array, limit: float = 1e12, **more: Any) -> Curve:
        """The part of the curve before |y| passes `limit` or stops being a number."""
        bad = np.flatnonzero(~(np.abs(y) < limit))
        if not bad.size:
            return cls(label, x, y, **more)
        first = int(bad[0])
        half = more.pop("half_ci95", None)
        cut = None if half is None else half[:first]
        return cls(label, x[:first], y[:first], half_ci95=cut, diverged_at=float(x[first]), **more)

    def to_dict(self, picture: Picture) -> Json:
        """Plain JSON form under the names of the axes."""
        found: Json = {"label": self.label, "theory": self.theory}
        found |= {picture.x: np.asarray(self.x).tolist(), picture.y: np.asarray(self.y).tolist()}
        if self.half_ci95 is not None:
            ends = np.stack([self.y - self.half_ci95, self.y + self.half_ci95], axis=-1)
            found["ci95"] = ends.tolist()
        if self.diverged_at is not None:
            found[f"diverged_at_{picture.x}"] = self.diverged_at
        return found


@dataclass(frozen=True, slots=True)
class Picture:
    """The axes of the curves: names with the unit in them (`step`, `time_s`, `loss`), linear or logarithmic."""

    x: str
    y: str
    log_x: bool = False
    log_y: bool = False
    title: str = ""
    """What the curves show, where that is not the whole question."""
    least_y: float | None = None
    """Values below it are left out of the picture, which says so."""


@dataclass(frozen=True, slots=True, repr=False)
class Findings(Shown):
    """What an experiment saw, and what theory says about it.

    `rows` is a table, `curves` are lines over the axes of `picture`; an experiment gives one or both. Keys of rows
    carry the unit.
    """

    checks: tuple[Check, ...]
    """Those that hold for these settings, examples with numbers of their own last."""
    left_out: tuple[Check, ...] = ()
    """Those that are not for these settings; nothing is said about their values."""
    theory: tuple[Law, ...] = ()
    rows: tuple[Mapping[str, object], ...] = ()
    curves: tuple[Curve, ...] = ()
    picture: Picture | None = None
    conclusion: str = ""
    """What was learned, in a sentence with the numbers found."""
    assumptions: tuple[str, ...] = ()
    experiment: str = ""
    question: str = ""
    source: str = ""
    settings: Mapping[str, object] | None = None
    seed: int = 0

    @property
    def agrees(self) -> bool:
        """Whether every law held and every false one was contradicted."""
        return all(check.ok for check in self.checks)

    @property
    def verdict(self) -> str:
        """Whether theory and simulation agree, within what."""
        return verdict(self.checks)

    def sorted_out(self) -> Findings:
        """The same with the checks that are not for these settings apart, and with examples last."""
        here = [check for check in self.checks if check.holds.here]
        return replace(
            self,
            checks=tuple(sorted(here, key=lambda check: check.holds.example)),
            left_out=(*self.left_out, *(check for check in self.checks if not check.holds.here)),
        )

    def to_dict(self) -> Json:
        """Plain JSON form."""
        found: Json = {
            **picked(self, "experiment question verdict agrees conclusion"),
            "settings": plain(self.settings or {}),
            **picked(self, "seed checks"),
            "left_out": [{"check": check.what, "holds_for": check.holds.words} for check in self.left_out],
            "theory": plain(self.theory),
        }
        if self.rows:
            found["rows"] = plain(self.rows)
        if self.picture is not None:
            found["curves"] = [curve.to_dict(self.picture) for curve in self.curves]
        return found | picked(self, "assumptions source")


def verdict(checks: Sequence[Check]) -> str:
    """`theory and simulation agree ...`, or which check they disagree on."""
    failed = [check for check in checks if not check.ok]
    if failed:
        first = failed[0]
        how = "a false law was not contradicted" if first.false_law else "theory and simulation disagree"
        expected, got = first.printed(6)
        return f"{how}: {first.what}: expected {expected}, got {got}, allowed {first.allowed:.2g}"
    laws = [check for check in checks if not check.false_law]
    said = f"theory and simulation agree in {len(laws)} of {len(laws)} checks"
    errors = [
        abs(check.got - check.expected) / check.standard_error
        for check in laws
        if check.standard_error > 0 and check.relation == "equals"
    ]
    if errors:
        said += f", the worst {max(errors):.2g} standard errors apart"
    refuted = len(checks) - len(laws)
    return said + (f"; {refuted} false law{'s' * (refuted > 1)} contradicted" if refuted else "")
