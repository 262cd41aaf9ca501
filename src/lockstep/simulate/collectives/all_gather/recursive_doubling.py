"""All-gather by recursive doubling: partners at distance 1, 2, 4 ... swap all they hold; other n are folded in.

    n = 2^k:    time = log2 n alpha + beta sum_s B(2^s) = log2 n alpha + (n - 1)/n S beta
    otherwise:  x = n - 2^k extra ranks first hand their share to a partner (alpha + c beta) and at the end receive
                the whole buffer (alpha + S beta); in between k rounds among 2^k ranks, of which x hold two shares.
B(m) = bytes of the first m shares. Member 2j + 1 is folded into member 2j for j < x, so that held shares stay runs.

Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19 (2005), on all-gather.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut, fold
from lockstep.simulate.collectives.shares import Split, floor_log2, power_of_two_core, sum_min_powers


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """The way of member 0: it is folded into first, always sends the largest run, and hands the whole back."""
    _core, extra = power_of_two_core(ranks)
    folded = np.minimum(extra, 1)
    fold_B = folded * (split.leading_B(size_B, ranks, np.minimum(2, ranks)) - split.largest_B(size_B, ranks))
    steps = floor_log2(ranks) + 2 * folded
    return Terms(steps, fold_B + doubling_B(size_B, ranks, split) + folded * size_B)


def doubling_B(size_B: Number, ranks: Number, split: Split) -> Number:
    """Bytes in series of the rounds among the core: sum over s of the shares of the first 2^s core members."""
    core, extra = power_of_two_core(ranks)
    if split.element_B == 0.0:
        return size_B * ((core - 1 + sum_min_powers(floor_log2(ranks), extra)) / ranks)
    total = 0.0 * np.asarray(size_B * core)
    for exponent in range(int(np.max(floor_log2(ranks), initial=0))):
        first = np.ldexp(1.0, exponent)
        live = first < core
        total = total + live * split.leading_B(size_B, ranks, np.where(live, first + np.minimum(first, extra), 0))
    return total


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """2^k messages per round and two per extra rank; every core rank receives all but its run, extras receive all."""
    core, extra = power_of_two_core(ranks)
    folded_B = odd_shares_B(size_B, ranks, split)
    return Counts(core * floor_log2(ranks) + 2 * extra, folded_B + (core - 1) * size_B + extra * size_B)


def odd_shares_B(size_B: Number, ranks: Number, split: Split) -> Number:
    """Bytes of the shares 1, 3, ..., 2x - 1 of the folded members."""
    _, extra = power_of_two_core(ranks)
    if split.element_B == 0.0:
        return size_B * (extra / ranks)
    num_elems = split.elements(size_B)
    each = np.floor(num_elems / ranks)
    larger = num_elems - each * ranks
    return (extra * each + np.minimum(np.floor(larger / 2), extra)) * split.element_B


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Fold, then round s: core members i and i xor 2^s swap their runs, then the extras get everything."""
    ranks = members.shape[1]
    edges = cut(start, stop, ranks)
    core, absorbed, absorber = fold(ranks)
    rounds.messages(members[:, absorbed], members[:, absorber], edges[:, absorbed], edges[:, absorbed + 1])
    lead = np.append(core, ranks)
    swap_runs(rounds, members[:, core], edges[:, lead])
    rounds.messages(members[:, absorber], members[:, absorbed], edges[:, :1], edges[:, -1:])


def swap_runs(rounds: Rounds, members: Array, edges: Array) -> None:
    """Doubling among a power of two of members that hold the runs edges[i] .. edges[i + 1]."""
    ranks = members.shape[1]
    index = np.arange(ranks)
    held = 1
    while held < ranks:
        first = index // held * held
        rounds.messages(members, members[:, index ^ held], edges[:, first], edges[:, first + held])
        held *= 2


RECURSIVE_DOUBLING = register(
    Algorithm(
        op="all-gather",
        name="recursive-doubling",
        terms=terms,
        counts=counts,
        formula="log2 n alpha + (n-1)/n S beta; n not 2^k: fold adds 2 alpha + about S beta",
        source="Thakur et al. 2005",
        dominated_by="bruck",
        write=write,
    )
)
