"""`Findings`: what an experiment saw, the laws beside it, and whether the two agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

CREDIBLE_ERRORS = 4.0
"""Standard errors within which a simulation agrees with a law: a false alarm in 16,000 normal checks."""


@dataclass(frozen=True, slots=True)
class Law:
    """One value that theory gives."""

    name: str
    value: float
    formula: str
    source: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Check:
    """A value that a law gives beside the simulated one.

    They agree within `standard_errors` times `standard_error`, or within `tolerance` where nothing is random, or
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
    standard_errors: float = CREDIBLE_ERRORS

    @property
    def allowed(self) -> float:
        """Largest difference at which law and simulation agree."""
        return self.standard_errors * self.standard_error + self.tolerance

    @property
    def strain(self) -> float:
        """Difference in the wrong direction as a share of what is allowed; negative on the right side of a bound."""
        return self._difference / self.allowed if self.allowed else float(self._difference > 0)

    @property
    def agrees(self) -> bool:
        """Whether law and simulation agree."""
        return self._difference <= self.allowed

    @property
    def _difference(self) -> float:
        above = self.got - self.expected
        return {"equals": abs(above), "at most": above, "at least": -above}[self.relation]

    @property
    def ok(self) -> bool:
        """Whether it came out as it should: laws hold, false laws are contradicted."""
        return self.agrees != self.false_law

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            "check": self.what,
            "relation": self.relation,
            "expected": self.expected,
            "got": self.got,
            "standard_error": self.standard_error,
            "allowed": self.allowed,
            "false_law": self.false_law,
            "ok": self.ok,
        }


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

    def to_dict(self, picture: Picture) -> dict[str, Any]:
        """Plain JSON form under the names of the axes."""
        found: dict[str, Any] = {
            "label": self.label,
            "theory": self.theory,
            picture.x: np.asarray(self.x).tolist(),
            picture.y: np.asarray(self.y).tolist(),
        }
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


@dataclass(frozen=True, slots=True)
class Findings:
    """What an experiment saw, and what theory says about it.

    `rows` is a table, `curves` are lines over the axes of `picture`; an experiment gives one or both. Keys of rows
    carry the unit.
    """

    checks: tuple[Check, ...]
    theory: tuple[Law, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = ()
    curves: tuple[Curve, ...] = ()
    picture: Picture | None = None
    conclusion: str = ""
    """What was learned, in a sentence with the numbers found."""
    assumptions: tuple[str, ...] = ()
    experiment: str = ""
    question: str = ""
    source: str = ""
    settings: Mapping[str, Any] | None = None
    seed: int = 0

    @property
    def agrees(self) -> bool:
        """Whether every law held and every false one was contradicted."""
        return all(check.ok for check in self.checks)

    @property
    def verdict(self) -> str:
        """Whether theory and simulation agree, within what."""
        return verdict(self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        found: dict[str, Any] = {
            "experiment": self.experiment,
            "question": self.question,
            "verdict": self.verdict,
            "agrees": self.agrees,
            "conclusion": self.conclusion,
            "settings": dict(self.settings or {}),
            "seed": self.seed,
            "checks": [check.to_dict() for check in self.checks],
            "theory": [law.to_dict() for law in self.theory],
        }
        if self.rows:
            found["rows"] = [dict(row) for row in self.rows]
        if self.picture is not None:
            found["curves"] = [curve.to_dict(self.picture) for curve in self.curves]
        return found | {"assumptions": list(self.assumptions), "source": self.source}


def verdict(checks: Sequence[Check]) -> str:
    """`theory and simulation agree ...`, or which check they disagree on."""
    failed = [check for check in checks if not check.ok]
    if failed:
        first = failed[0]
        how = "a false law was not contradicted" if first.false_law else "theory and simulation disagree"
        return f"{how}: {first.what}: expected {first.expected:.6g}, got {first.got:.6g}, allowed {first.allowed:.2g}"
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


def mean_and_error(values: Array) -> tuple[float, float]:
    """(mean, its standard error) of independent repetitions."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    if flat.size < 2:
        return float(flat.mean()), 0.0
    return float(flat.mean()), float(flat.std(ddof=1)) / math.sqrt(flat.size)
