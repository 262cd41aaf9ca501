"""Intervals between checkpoints, and what they cost."""

from __future__ import annotations

from lockstep.base.types.arrays import Array
from lockstep.check.evidence.claims.deciders import decides
from lockstep.simulate.failures import (
    exact_s,
    first_order_overhead_frac,
    overhead_frac,
    simulate_campaigns,
    single,
    young_s,
)  # fmt: skip
from lockstep.simulate.play import Exponential


@decides("priced")
def young_h(mtbf_h: float, write_h: float) -> float:
    """Young's interval, to first order, in hours."""
    return float(young_s(write_h, mtbf_h))


@decides("solved")
def exact_h(mtbf_h: float, write_h: float) -> float:
    """The interval with the least overhead for exponential failures, in hours."""
    return float(exact_s(write_h, mtbf_h))


@decides("solved")
def best_overhead(mtbf_h: float, write_h: float) -> float:
    """Overhead at the best interval: wall time over useful work, minus 1."""
    return overhead(mtbf_h, write_h, exact_h(mtbf_h, write_h))


@decides("solved")
def overhead(
    mtbf_h: float, write_h: float, interval_h: float, restart_h: float = 0.0, hidden_frac: float = 0.0
) -> float:  # fmt: skip
    """Overhead of an interval for exponential failures; `hidden_frac` of a write goes on beside the work."""
    return float(overhead_frac(interval_h, write_h, mtbf_h, restart_s=restart_h, hidden_frac=hidden_frac))


@decides("solved")
def excess_of_young(mtbf_h: float, write_h: float) -> float:
    """Overhead of Young's interval over the least."""
    return overhead(mtbf_h, write_h, young_h(mtbf_h, write_h)) / best_overhead(mtbf_h, write_h)


@decides("priced")
def first_order(mtbf_h: float, write_h: float, interval_h: float) -> float:
    """Overhead of an interval to first order: the writes, and half an interval lost per failure."""
    return float(first_order_overhead_frac(interval_h, write_h, mtbf_h))


@decides("simulated")
def simulated_overhead(
    mtbf_h: float, write_h: float, interval_h: float, work_h: float, campaigns: int, seed: int
) -> Array:
    """Overheads of an interval in simulated campaigns of `work_h` hours of work each."""
    law = Exponential(mtbf_h)
    drawn = simulate_campaigns(single(write_h), work_h, interval_h, law, campaigns=campaigns, seed=seed)
    return drawn.overhead.values_s
