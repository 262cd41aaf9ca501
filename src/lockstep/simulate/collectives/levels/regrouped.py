"""All-to-all level after level: at each one the blocks are regrouped by where they go, so messages are few and long.

    time = sum_l (start_l + (r_l - 1) (alpha_l + S/(r_l b_l)))   over r_l > 1
n ranks, S bytes of send buffer per rank; every byte moves once per level. Packing is taken as free.

Source: S. Rajbhandari et al., "DeepSpeed-MoE", ICML 2022, section 5.3 (two levels).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.simulate.collectives.all_to_all.hierarchical import copies, write_levels
from lockstep.simulate.collectives.best import best_time_s
from lockstep.simulate.collectives.cost import Counts, LinkLike
from lockstep.simulate.collectives.levels.hierarchy import Sent, Way, product, start_s
from lockstep.simulate.collectives.registry import ROUND_OPERATIONS
from lockstep.simulate.collectives.rounds import Rounds, everyone
from lockstep.simulate.program import Program


def price(op: str, ranks: Sequence[Number], links: Sequence[LinkLike], size_B: Number) -> Number:
    """Seconds; broadcasts."""
    time_s: Number = 0.0
    for size, link in zip(ranks, links, strict=True):
        time_s = time_s + best_time_s(op, size, size_B, link, ("direct",))
    return time_s


def work(op: str, sizes: Sequence[int], links: Sequence[LinkLike], size_B: float) -> float:
    """Both ends of r_l - 1 messages per rank and level, a start at every level, and copies of all blocks."""
    total, turns = product(sizes), sum(sizes) - len(sizes)
    starts = total * len(sizes) if start_s(sizes, links) else 0
    return float(starts + copies(total, len(sizes)) + (2 * total + ROUND_OPERATIONS) * turns)


def count(op: str, sizes: Sequence[int], links: Sequence[LinkLike], size_B: float) -> Sent:
    """r_l - 1 messages of S/r_l per rank and level."""
    ranks = product(sizes)
    over = tuple(Counts(ranks * (size - 1), ranks * (size - 1) / size * size_B) for size in sizes)
    return Sent(sum(sizes) - len(sizes), over)


def program(op: str, sizes: Sequence[int], links: Sequence[LinkLike], size_B: float) -> Program:
    """The exchange at every level, innermost first."""
    ranks = int(product(sizes))
    rounds = Rounds(ranks, size_B / ranks)
    starts_s = [float(start_s([size], [link])) for size, link in zip(sizes, links, strict=True)]
    write_levels(rounds, everyone(ranks), np.zeros(1, np.int64), np.full(1, ranks), sizes, starts_s)
    return rounds.build()


WAY = Way(price, program, work, count, "sum_l (r_l - 1) (alpha_l + S/r_l beta_l)")
