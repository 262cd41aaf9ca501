"""Reduce-scatter by recursive halving: partners at distance n/2, n/4 ... 1 swap what the other keeps; other n fold.

    n = 2^k:    time = log2 n alpha + (beta + gamma) sum_s B(2^s) = log2 n alpha + (n - 1)/n S (beta + gamma)
    otherwise:  x = n - 2^k extra ranks first hand all to a partner (alpha + S (beta + gamma)) and at the end
                receive their share (alpha + c beta); in between k rounds among 2^k ranks, of which x own two shares.
The mirror image of the all-gather by recursive doubling.

Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19 (2005), on reduce-scatter.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.all_gather.recursive_doubling import doubling_B, odd_shares_B
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut, fold
from lockstep.simulate.collectives.shares import Split, floor_log2, power_of_two_core


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """The way of member 0: it absorbs a whole buffer, always receives the largest run, then hands one share back."""
    _core, extra = power_of_two_core(ranks)
    folded = np.minimum(extra, 1)
    back_B = folded * (split.leading_B(size_B, ranks, np.minimum(2, ranks)) - split.largest_B(size_B, ranks))
    reduced_B = folded * size_B + doubling_B(size_B, ranks, split)
    return Terms(floor_log2(ranks) + 2 * folded, reduced_B + back_B, reduced_B)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """2^k messages per round and two per extra rank; n - 1 buffers are added in all."""
    core, extra = power_of_two_core(ranks)
    reduced_B = (ranks - 1) * size_B
    return Counts(core * floor_log2(ranks) + 2 * extra, reduced_B + odd_shares_B(size_B, ranks, split), reduced_B)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Fold, then halving rounds among the core, then the extras get their share."""
    ranks = members.shape[1]
    edges = cut(start, stop, ranks)
    core, absorbed, absorber = fold(ranks)
    rounds.messages(members[:, absorbed], members[:, absorber], edges[:, :1], edges[:, -1:], reduce=True)
    lead = np.append(core, ranks)
    halve_runs(rounds, members[:, core], edges[:, lead])
    rounds.messages(members[:, absorber], members[:, absorbed], edges[:, absorbed], edges[:, absorbed + 1])


def halve_runs(rounds: Rounds, members: Array, edges: Array) -> None:
    """Halving among a power of two of members; member i ends with the run edges[i] .. edges[i + 1]."""
    ranks = members.shape[1]
    index = np.arange(ranks)
    held = ranks // 2
    while held:
        partner = index ^ held
        first = partner // held * held
        rounds.messages(members, members[:, partner], edges[:, first], edges[:, first + held], reduce=True)
        held //= 2


RECURSIVE_HALVING = register(
    Algorithm(
        op="reduce-scatter",
        name="recursive-halving",
        terms=terms,
        counts=counts,
        formula="log2 n alpha + (n-1)/n S (beta + gamma); n not 2^k: fold adds 2 alpha + about S (beta + gamma)",
        source="Thakur et al. 2005",
        dominated_by="bruck",
        write=write,
    )
)
