"""`robust_order`: among layouts that are nearly fastest, the one that loses least when things go badly.

    safe     layouts that run out of memory with a probability of at most 10 % (`risk.is_safe`)
    near     safe layouts at most 3 % slower than the fastest safe one (`Findings.near_safe`), where that is at most
             SAFE_FRAC slower than the fastest of all; else all layouts at most 3 % slower than the fastest
    badly    with every link at the least it may reach, and software and kernels at the upper end of what those of
             other programs took (`interval.py`)

The first is the one of these with the shortest time when things go badly; of those within TIE_FRAC of it, the one with
fewest kinds of parallelism and chunks, then the fastest. What is so little slower by the formulas is no slower as far
as anyone can tell: prediction errors are several times that. A layout that is not safe may run out of memory, which
ends the run: up to SAFE_FRAC of the time is given up to avoid it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lockstep.decide.planner.interval import Ends, spread_on
from lockstep.decide.planner.search import Findings, Scored
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import Layout, is_safe

TIE_FRAC = 0.005
SAFE_FRAC = 0.10
"""Share of the time that is given up for memory that suffices even if it is predicted too low. Chosen, not measured."""


def robust_among(found: Findings) -> list[Scored]:
    """The layouts from which the robust choice is taken: safe ones, unless these are all much slower."""
    safe = found.near_safe
    if safe and safe[0].step_time_s <= (1 + SAFE_FRAC) * found.near[0].step_time_s:
        return safe
    return found.near


def robust_order(cluster: Cluster, near: Sequence[Scored], ends: Mapping[Layout, Ends]) -> list[Scored]:
    """`near` with the robust choice first, then by time when things go badly. Safe ones come before the others."""
    spread = spread_on(cluster.device)
    badly_s = [float(ends[one.layout].badly_s(spread)) for one in near]
    tight = [not is_safe(one.memory_B, cluster.device.memory_B) for one in near]
    ranked = sorted(zip(tight, badly_s, near, strict=True))
    first_tight, first_s, _ = ranked[0]
    tied = [one for tight, one_s, one in ranked if tight == first_tight and one_s <= (1 + TIE_FRAC) * first_s]
    chosen = min(tied, key=lambda one: (complexity(one.layout), one))
    return [chosen, *(one for _, _, one in ranked if one is not chosen)]


def complexity(layout: Layout) -> int:
    """Kinds of parallelism, sharding and recomputation in use, and chunks beyond one: what software must get right."""
    kinds = (layout.tp, layout.pp, layout.cp, layout.ep)
    return sum(one > 1 for one in kinds) + (layout.zero > 1) + (layout.recompute != "none") + layout.vpp - 1
