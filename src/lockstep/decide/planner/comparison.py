"""`Comparison`: two runs next to each other: what of a step makes the difference, and whether it exceeds the error.

    difference     s b_k - a_k of every part k, which add up to s b - a: seconds for as many tokens as a step of A has
    interval       ln(s b / a) - e_low to ln(s b / a) + e_high

a, b seconds of a step; a_k, b_k those of its parts; s tokens of A's step over those of B's. How far such a ratio is off
depends on what the two have in common.

    in common      e = sqrt((shared + shared_per_shift x)^2 + l^2),    x = 1/2 sum over k of |a_k / a - b_k / b|
    otherwise      e_low = sqrt(below_B^2 + above_A^2),  e_high = sqrt(above_B^2 + below_A^2)

Two runs of one model by the same software on the same device have their kernels and links in common, so what is wrong
with these is wrong with both and cancels: more of it, the more alike their steps are (x = 0: the same shares of time).
The two constants are a quantile of what pairs of published steps differed by beside what was predicted
(`comparison.toml`, the output of `python tools/fit/pairs.py`). l: how far the ratio moves when the links that
nobody measured are at one end of their range in both runs. Others err independently: below and above are ends of the
intervals of `interval.py`, 0 for a measured run. The first interval is never wider than the second.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field, replace
from lockstep.base.types.brief import Brief
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.shown import Shown
from lockstep.base.units import SAME_FRAC, format_frac
from lockstep.decide.planner.estimate import Estimate
from lockstep.decide.planner.interval import Interval, spread_on
from lockstep.decide.planner.uncounted import not_counted, said
from lockstep.decide.planner.utilisation import Utilisation, plain_mfu
from lockstep.price.layout.memory import CATEGORIES

STEPS = "steps"
"""The unit of captured steps, whose tokens nobody counts."""
EXPLAINED_FRAC = 0.9
"""Causes are the parts that together make up this share of all that differs."""


@dataclass(frozen=True, slots=True, repr=False)
class Side(Brief):
    """A run that is compared, predicted or measured."""

    title: str
    parts_s: Mapping[str, float]
    """Exposed seconds of a step by part; they add up to the step."""
    units: float
    """Tokens or images of a step."""
    unit: str
    devices: int
    below: float = 0.0
    """ln(predicted / least expected); 0 where measured."""
    above: float = 0.0
    """ln(most expected / predicted)."""
    links: tuple[float, float] = (0.0, 0.0)
    """The same of links that nobody measured, at their slowest and their fastest: logarithms of the step's change."""
    common: Hashable = None
    """What two predictions must agree in to have kernels and links in common; None where measured."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    memory_B: Mapping[str, float] = field(default_factory=dict)
    capacity_B: float | None = None
    utilisation: Utilisation | None = None
    cost_per_token: float | None = None
    assumptions: tuple[str, ...] = ()
    not_counted: tuple[str, ...] = ()
    """What the prediction leaves out; nothing where measured."""

    @property
    def step_time_s(self) -> float:
        """The whole step."""
        return sum(self.parts_s.values())

    @property
    def mfu_frac(self) -> float | None:
        """Model FLOPs utilisation; None where it is not known."""
        return None if self.utilisation is None else self.utilisation.mfu_frac

    @property
    def tokens_per_s(self) -> float:
        """Tokens (images) of all devices per second."""
        return self.units / self.step_time_s

    @property
    def total_B(self) -> float | None:
        """Bytes on the fullest device; None where they are not known."""
        return sum(self.memory_B.values()) if self.memory_B else None

    @property
    def fits(self) -> bool:
        """Whether the fullest device holds it, as far as that is known."""
        return self.total_B is None or self.capacity_B is None or self.total_B <= self.capacity_B

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            **picked(self, "title step_time_s tokens_per_s"),
            **plain_mfu(self.utilisation),
            **picked(self, "cost_per_token devices"),
            "memory_B": self.total_B,
            **picked(self, "capacity_B fits not_counted"),
            "settings": plain(self.settings),
        }


def predicted(found: Estimate, title: str) -> Side:
    """The side of an estimate."""
    job, cluster, step_s = found.job, found.cluster, found.step_time_s
    between = found.ends
    spread = spread_on(cluster.device)
    return Side(
        title=title,
        parts_s=found.step.breakdown_s(),
        units=float(job.step_units),
        unit=job.unit,
        devices=job.devices,
        below=float(between.below(spread)),
        above=float(between.above(spread)),
        links=(math.log(float(between.slow_s) / step_s), math.log(float(between.fast_s) / step_s)),
        # Two files of one model are called differently.
        common=(replace(job.model, name=""), cluster.device, job.recipe.software.like),
        settings=_settings(found),
        memory_B={name.removesuffix("_B"): float(getattr(found.memory, name)) for name in CATEGORIES},
        capacity_B=float(found.memory.capacity_B),
        utilisation=found.utilisation,
        cost_per_token=found.cost_per_token,
        assumptions=found.assumptions(),
        not_counted=not_counted(job),
    )


def _settings(found: Estimate) -> Json:
    """What was chosen, by the words of the command line."""
    recipe = {name: value for name, value in found.job.recipe.to_dict().items() if name != "notes"}
    run = {"model": found.job.model.name, "cluster": found.cluster.name, "gpus": found.job.devices}
    return {**run, **recipe, **found.job.recipe.software.manner, **found.layout.to_dict()}


def shift_frac(a_s: Mapping[str, float], b_s: Mapping[str, float]) -> float:
    """Half the sum of differences between the shares of time that two steps spend on each part: 0 to 1."""
    a, b = sum(a_s.values()), sum(b_s.values())
    return 0.5 * sum(abs(a_s.get(name, 0.0) / a - b_s.get(name, 0.0) / b) for name in sorted({*a_s, *b_s}))


@dataclass(frozen=True, slots=True)
class Shared:
    """Errors of ratios of runs with kernels and links in common: the constants of the formula, logarithms."""

    shared: float
    shared_per_shift: float
    level_frac: float
    source: str
    date: str


@cache
def known_shared() -> Shared:
    """The constants of published steps."""
    return Shared(**shipped_table("lockstep.decide.planner", "comparison.toml"))


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Shown):
    """What B differs in from A. Raises BadInput where they do not train on the same kind of units."""

    a: Side
    b: Side

    def __post_init__(self) -> None:
        if self.a.unit != self.b.unit:
            raise BadInput(f"a step of {self.a.unit} and one of {self.b.unit} cannot be compared")

    @property
    def scale(self) -> float:
        """Steps of B with as many tokens as one of A."""
        return self.a.units / self.b.units

    @property
    def parts(self) -> list[Json]:
        """Seconds of every part that either has, and their difference."""
        rows = []
        for name in dict.fromkeys((*self.a.parts_s, *self.b.parts_s)):
            a_s, b_s = self.a.parts_s.get(name, 0.0), self.scale * self.b.parts_s.get(name, 0.0)
            if a_s or b_s:
                rows.append({"part": name, "a_s": a_s, "b_s": b_s, "difference_s": b_s - a_s})
        return rows

    @property
    def difference_s(self) -> float:
        """What B takes more than A, for as many tokens."""
        return self.scale * self.b.step_time_s - self.a.step_time_s

    @property
    def ratio(self) -> float:
        """B's time over A's."""
        return self.scale * self.b.step_time_s / self.a.step_time_s

    @property
    def same(self) -> bool:
        """Whether they take equally long."""
        return abs(self.ratio - 1.0) <= SAME_FRAC

    @property
    def in_common(self) -> bool:
        """Whether both are predicted for one model, software and device."""
        return self.a.common is not None and self.a.common == self.b.common

    @property
    def shift_frac(self) -> float:
        """Share of the step that goes elsewhere."""
        return shift_frac(self.a.parts_s, self.b.parts_s)

    @property
    def errors(self) -> tuple[float, float]:
        """How far the logarithm of the ratio may be too high, and too low."""
        low, high = math.hypot(self.b.below, self.a.above), math.hypot(self.b.above, self.a.below)
        if not self.in_common:
            return low, high
        known = known_shared()
        moved = [b - a for a, b in zip(self.a.links, self.b.links, strict=True)]
        shared = known.shared + known.shared_per_shift * self.shift_frac
        return min(low, math.hypot(shared, min(0.0, *moved))), min(high, math.hypot(shared, max(0.0, *moved)))

    @property
    def interval(self) -> Interval:
        """Between which values B's time over A's, minus 1, is expected."""
        low, high = self.errors
        if self.same:
            low = high = 0.0
        return Interval(self.ratio * math.exp(-low) - 1, self.ratio * math.exp(high) - 1, known_shared().level_frac)

    @property
    def inconclusive(self) -> bool:
        """Whether either may be the faster one, as far as anyone can tell."""
        return not self.same and self.interval.low <= 0.0 <= self.interval.high

    @property
    def causes(self) -> list[str]:
        """The parts that make up most of what differs, the largest first."""
        rows = sorted(self.parts, key=lambda row: -abs(row["difference_s"]))
        whole_s, sum_s, found = sum(abs(row["difference_s"]) for row in rows), 0.0, []
        for row in rows:
            if sum_s >= EXPLAINED_FRAC * whole_s:
                break
            found.append(row["part"])
            sum_s += abs(row["difference_s"])
        return found

    @property
    def changed(self) -> list[Json]:
        """Settings that differ. A schedule does nothing where there are no stages."""
        one, other = self.a.settings, self.b.settings
        idle = {"schedule"} if 1 in (one.get("pp"), other.get("pp")) else set[str]()
        names = [name for name in dict.fromkeys((*one, *other)) if name not in idle]
        return [
            {"setting": name, "a": plain(one.get(name)), "b": plain(other.get(name))}
            for name in names
            if one.get(name) != other.get(name)
        ]

    @property
    def memory(self) -> list[Json]:
        """Bytes of every category on the fullest device, and their difference; none where either is not known."""
        if self.a.total_B is None or self.b.total_B is None:
            return []
        names = dict.fromkeys((*self.a.memory_B, *self.b.memory_B))
        pairs = [(name, self.a.memory_B.get(name, 0.0), self.b.memory_B.get(name, 0.0)) for name in names]
        return [{"part": name, "a_B": a_B, "b_B": b_B, "difference_B": b_B - a_B} for name, a_B, b_B in pairs]

    @property
    def error_sentence(self) -> str:
        """How the errors of the two belong together, in words."""
        if not self.in_common:
            return (
                "errors of the two taken as independent: they differ in model, device or software, or one is measured"
            )
        known = known_shared()
        return (
            "errors of kernels and links cancel, as both run one model with the same software on the same device: the "
            f"ratio is off by up to {format_frac(math.expm1(known.shared), 2)} where steps spend the same shares of "
            f"time, more where they do not (here {format_frac(self.shift_frac, 2)} of the step differs), as "
            f"{known.source}"
        )

    def assumptions(self) -> tuple[str, ...]:
        """What the comparison takes for granted, then what both predictions do."""
        scaled = () if self.scale == 1.0 else ("parts of B are for as many tokens as a step of A has",)
        both = [one for one in self.a.assumptions if one in self.b.assumptions]
        return (self.error_sentence, *scaled, *both)

    @property
    def left_out(self) -> list[str]:
        """Sentences on what the predictions leave out of times and memory, one where both leave out the same."""
        a, b = self.a.not_counted, self.b.not_counted
        found = [said(a or b)] if a == b or not (a and b) else [said(a, "A"), said(b, "B")]
        return [one for one in found if one]

    def verdict(self) -> str:
        """The answer in words."""
        if self.same:
            return "A and B take equally long"
        size = format_frac(abs(self.ratio - 1.0))
        said = f"B takes {size} {'more' if self.ratio > 1 else 'less'} time than A"
        return f"inconclusive: {said}, which is within the error" if self.inconclusive else said

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "verdict": self.verdict(),
            **picked(self, "inconclusive difference_s"),
            "difference_frac": self.ratio - 1.0,
            **picked(self, "interval in_common shift_frac a b scale changed parts causes memory"),
            "assumptions": list(self.assumptions()),
        }

    def __str__(self) -> str:
        return self.verdict()


def compare(a: Estimate, b: Estimate) -> Comparison:
    """Two estimates next to each other."""
    return Comparison(predicted(a, _title(a)), predicted(b, _title(b)))


def _title(found: Estimate) -> str:
    return f"{found.job.model.name} on {found.job.devices} x {found.cluster.device.name}: {found.layout}"
