"""All-reduce by recursive halving and doubling (Rabenseifner): latency of a tree, bandwidth of a ring.

    n = 2^k:    time = 2 log2 n alpha + 2 (n - 1)/n S beta + (n - 1)/n S gamma
    otherwise:  x = n - 2^k extra ranks first give their buffer to a partner (alpha + S (beta + gamma)) and receive the
                result at the end (alpha + S beta); the formula above holds among the 2^k.
With whole elements (n - 1)/n S becomes the sum of the first 2^s of 2^k shares, s = 0 .. k - 1.

Source: R. Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; Thakur et al., IJHPCA 19 (2005),
on all-reduce.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.all_gather.recursive_doubling import swap_runs
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.reduce_scatter.recursive_halving import halve_runs
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut, fold
from lockstep.simulate.collectives.shares import Split, floor_log2, power_of_two_core


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """The way of member 0, which always receives and sends the largest run."""
    core, extra = power_of_two_core(ranks)
    folded = np.minimum(extra, 1)
    reduced_B = split.doubling_B(size_B, core) + folded * size_B
    return Terms(2 * (floor_log2(ranks) + folded), 2 * reduced_B, reduced_B)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """2 * 2^k log2 2^k messages and two per extra rank; 2 (n - 1) S bytes in all."""
    core, extra = power_of_two_core(ranks)
    return Counts(2 * core * floor_log2(ranks) + 2 * extra, 2 * (ranks - 1) * size_B, (ranks - 1) * size_B)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Fold, halve, double, unfold."""
    core, absorbed, absorber = fold(members.shape[1])
    whole = cut(start, stop, 1)
    edges = cut(start, stop, len(core))
    rounds.messages(members[:, absorbed], members[:, absorber], whole[:, :1], whole[:, 1:], reduce=True)
    halve_runs(rounds, members[:, core], edges)
    swap_runs(rounds, members[:, core], edges)
    rounds.messages(members[:, absorber], members[:, absorbed], whole[:, :1], whole[:, 1:])


RABENSEIFNER = register(
    Algorithm(
        op="all-reduce",
        name="rabenseifner",
        terms=terms,
        counts=counts,
        formula="2 log2 n alpha + 2(n-1)/n S beta + (n-1)/n S gamma; n not 2^k: fold adds 2 alpha + S (2 beta + gamma)",
        source="Rabenseifner 2004",
        message_count="2n log2 n, 2(n-1) p in all; n not 2^k: 2k 2^k + 2(n-2^k)",
        pieces=lambda ranks, **choices: 1 << ranks.bit_length() - 1,
        write=write,
    )
)
