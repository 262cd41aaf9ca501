"""`Interval`: between which times a step is expected, and what makes them lie apart.

    low  = t exp(-sqrt(below^2 + D_low^2 + ln(1 - f h)^2 + ln(t / t_fast)^2))
    high = t exp(+sqrt(ln(1 + above + above_per_host h)^2 + D_high^2 + ln(t_slow / t)^2))

t predicted seconds; t_slow and t_fast the same with every link at the least and the most that it may reach
(`Link.range_frac`; a link that was measured has no range); h share of the step that is time of software on the host,
which adds h (F - 1) where it turns out F times as long, and saves f h where plain kernels are launched faster, f being
FASTER_HOST_FRAC; D what less evidence adds (`doubts.py`). The three constants, below, above and above_per_host, are
quantiles of what published steps of programs took beside what is predicted for programs to which nothing was fitted
(`interval.toml`), so that they hold software, kernels and measured links together. Steps come out longer than
predicted far more often than shorter. On a cluster that was calibrated (`lockstep calibrate`) both ends are
quantiles of a normal law with the error left.
"""

from __future__ import annotations

from functools import cache
from statistics import NormalDist

import numpy as np

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Number
from lockstep.base.types.plain import Json, picked
from lockstep.base.units import format_frac, format_time
from lockstep.decide.planner.doubts import UNDOUBTED, Doubts, doubts_on
from lockstep.describe.hardware import Cluster, Device
from lockstep.describe.hardware.device import CALIBRATED
from lockstep.price.layout import KEEP, Job, LayoutGrid
from lockstep.price.step import price_step

FASTER_HOST_FRAC = 0.5
"""Share of the host's time that plain kernels may save. Chosen, not fitted: of rows on short sequences that nobody here
had opened steps were predicted 46 to 121 % too slow, as most of their kernels are plain, while the 20 us of a launch
are those of layers' modules (`describe/stacks/stack.py`)."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a quantity is expected with a probability of `level_frac`."""

    low: float
    high: float
    level_frac: float

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)

    @property
    def said_s(self) -> str:
        """The interval of a time in words."""
        return f"{format_time(self.low)} to {format_time(self.high)} in {format_frac(self.level_frac)} of cases"

    def over(self, amount: float) -> Interval:
        """The interval of `amount` per quantity: of tokens per second, from that of seconds."""
        return Interval(amount / self.high, amount / self.low, self.level_frac)

    def times(self, factor: float) -> Interval:
        """The interval of `factor` quantities."""
        return Interval(factor * self.low, factor * self.high, self.level_frac)


@dataclass(frozen=True, slots=True)
class Spread:
    """The constants of the formula: below in logarithms of predicted over measured seconds, the others in shares of the
    predicted ones.
    """

    below: float
    above: float
    above_per_host: float
    level_frac: float
    programs: int
    source: str
    date: str

    def software(self, host_frac: Number) -> Number:
        """How far above the prediction software and kernels reach, as a logarithm."""
        return np.log1p(self.above + self.above_per_host * host_frac)


@cache
def known_spread() -> Spread:
    """The constants of published steps."""
    return Spread(**shipped_table("lockstep.decide.planner", "interval.toml"))


def spread_on(device: Device) -> Spread:
    """The constants for a device: of published steps, or of the steps that its cluster was calibrated to."""
    curve, known = device.efficiency, known_spread()
    if curve.kind != CALIBRATED:
        return known
    end = NormalDist().inv_cdf((1 + known.level_frac) / 2) * curve.typical_error_frac
    return Spread(end, float(np.expm1(end)), 0.0, known.level_frac, 0, curve.source, curve.date)


@dataclass(frozen=True, slots=True)
class Ends:
    """What of a step the interval depends on; numbers, or arrays where the layout is a grid."""

    step_time_s: Number
    slow_s: Number
    """With links at the least they may reach."""
    fast_s: Number
    host_frac: Number
    doubts: Doubts = UNDOUBTED

    def below(self, spread: Spread) -> Number:
        """ln(t / low)."""
        host = np.log1p(-FASTER_HOST_FRAC * np.clip(self.host_frac, 0.0, 1.0)) if spread.programs else 0.0
        known = np.hypot(np.hypot(spread.below, self.doubts.below), host)
        return np.hypot(known, np.log(self.step_time_s / self.fast_s))

    def above(self, spread: Spread) -> Number:
        """ln(high / t)."""
        return np.hypot(self._software(spread), np.log(self.slow_s / self.step_time_s))

    def _software(self, spread: Spread) -> Number:
        return np.hypot(spread.software(self.host_frac), self.doubts.above)

    def badly_s(self, spread: Spread) -> Number:
        """Seconds with links at the least they may reach, and software and kernels at their upper end, together."""
        badly_s: Number = self.slow_s * np.exp(self._software(spread))
        return badly_s

    def interval(self, spread: Spread) -> Interval:
        """The interval of one layout."""
        step_s = float(self.step_time_s)
        low_s, high_s = (step_s * float(np.exp(end)) for end in (-self.below(spread), self.above(spread)))
        return Interval(low_s, high_s, spread.level_frac)


def ends_of(job: Job, cluster: Cluster, grid: LayoutGrid) -> Ends:
    """What the interval depends on, for one layout or a grid with one number of stages."""
    if not np.any(grid.offload != KEEP) and not job.recipe.offload_layers:
        cluster = replace(cluster, host=None)
    software = replace(job.recipe.software, launch_s=0.0, recompute_host_s=0.0, step_s=0.0)
    hostless = replace(job, recipe=replace(job.recipe, stack=software))
    step_s = price_step(job, cluster, grid).step_time_s
    slow, fast = cluster.links_range
    return Ends(
        step_time_s=step_s,
        slow_s=step_s if slow is cluster else price_step(job, slow, grid).step_time_s,
        fast_s=step_s if fast is cluster else price_step(job, fast, grid).step_time_s,
        host_frac=1.0 - price_step(hostless, cluster, grid).step_time_s / step_s,
        doubts=doubts_on(cluster.device, job.recipe.dtype, job.devices, bool(job.num_experts)),
    )


def explained(found: Ends, device: Device) -> str:
    """The interval in words: how far up and down, and what of it is software, what links."""
    spread = spread_on(device)
    low, high = (format_frac(float(np.expm1(end)), 2) for end in (-found.below(spread), found.above(spread)))
    software = format_frac(float(np.expm1(spread.software(found.host_frac))), 2)
    links = format_frac(float(found.slow_s / found.step_time_s) - 1.0, 2)
    level = format_frac(spread.level_frac)
    like = f"as {spread.programs} programs to which nothing was fitted" if spread.programs else spread.source
    doubts = "".join(f"; wider, as {words}" for words in found.doubts.words)
    return (
        f"{level} interval of the step time: {low} to +{high}; software and kernels up to +{software}, {like}, "
        f"links that nobody measured +{links}{doubts}"
    )
