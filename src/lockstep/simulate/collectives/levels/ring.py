"""A flat ring over all ranks of a hierarchy, in as many channels as an inner unit has ranks.

    time  = start + turns (n - 1) max_l (alpha_l + (S/n) w_l / b_l) + (n - 1)/n S sum_l w_l gamma_l  over r_l > 1
    w_l   = (r_l - 1)/R_l below the outermost level, r_l/R_l = 1/(ranks of an inner unit) at it;  R_l = r_0 r_1 ... r_l
    turns = 2 for all-reduce (it reduces in the first turn), 1 for all-gather and reduce-scatter
n ranks, S bytes, r_l units per level with link alpha_l, b_l; start of the outermost level spanned. A ring runs at its
slowest hop, and leaves a node once per turn. One ring would leave every node through one adapter; so each rank is the
exit of some channels. A channel carries an equal part of the buffer, and the channels that share a port each get an
equal part of its rate: w_l R_l of them at level l. They share its adder too: w_l of what a rank reduces came over level
l. Channel i with places (i_0, i_1, ...) visits the children of a unit of level l from i_l + 1 to i_l.

Source: NCCL `src/graph/tuning.cc` and `rings.cc` (one ring per channel, each leaving by another adapter; bytes of the
slowest level); latency as in P. Patarasuk, X. Yuan, JPDC 69 (2009): every step waits for the slowest hop. NCCL's own
estimate adds latencies along the way, which is smaller where inner hops are quicker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from lockstep.base.types.arrays import Array, Number
from lockstep.simulate.collectives.cost import Counts, LinkLike
from lockstep.simulate.collectives.levels.hierarchy import Sent, Way, gamma, places, product, start_s, units_below
from lockstep.simulate.collectives.registry import ROUND_OPERATIONS, get
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.program import Program

TURNS: Mapping[str, tuple[str, ...]] = {
    "all-reduce": ("reduce-scatter", "all-gather"),
    "all-gather": ("all-gather",),
    "reduce-scatter": ("reduce-scatter",),
}


def price(op: str, ranks: Sequence[Number], links: Sequence[LinkLike], size_B: Number) -> Number:
    """Seconds; broadcasts."""
    total = product(ranks)
    share_B, reduces = size_B / total, "reduce-scatter" in TURNS[op]
    slowest_s: Number = 0.0
    gamma_s_per_B: Number = 0.0
    for size, link, share in zip(ranks, links, shares(ranks), strict=True):
        if np.all(np.equal(size, 1)):
            continue
        hop_s = link.latency_s + share_B * share / link.bandwidth_Bps
        slowest_s = np.maximum(slowest_s, (np.asarray(size) > 1) * hop_s)
        if reduces and np.any(gamma(link)):
            gamma_s_per_B = gamma_s_per_B + share * gamma(link)
    steps = total - 1
    return start_s(ranks, links) + steps * (len(TURNS[op]) * slowest_s + share_B * gamma_s_per_B)


def shares(ranks: Sequence[Number]) -> Iterator[Number]:
    """w_l: the share of a ring's hops that is over each level, innermost first; broadcasts."""
    total = product(ranks)
    unit: Number = 1.0
    for size in ranks:
        unit = unit * size
        yield (np.asarray(size) > 1) * np.where(unit < total, size - 1.0, size) / unit


def count(op: str, sizes: Sequence[int], links: Sequence[LinkLike], size_B: float) -> Sent:
    """(n - 1) S per turn; a message is a piece of an nth of a channel's part."""
    ranks = product(sizes)
    steps = len(TURNS[op]) * (ranks - 1)
    hops = ranks * ranks / sizes[_outermost(sizes)] * steps
    return Sent(steps, tuple(Counts(hops * share, steps * size_B * share) for share in shares(sizes)))


def work(op: str, sizes: Sequence[int], links: Sequence[LinkLike], size_B: float) -> float:
    """Both ends of every message, a reduction for each in the first turn; rounds and a start in every channel."""
    total = product(sizes)
    inside = total / sizes[_outermost(sizes)]
    ends = sum(3 if turn == "reduce-scatter" else 2 for turn in TURNS[op])
    starts = total if start_s(sizes, links) else 0
    return float(inside * (starts + (total - 1) * (ends * total + len(TURNS[op]) * ROUND_OPERATIONS)))


def program(op: str, sizes: Sequence[int], links: Sequence[LinkLike], size_B: float) -> Program:
    """Channel after channel, each on ports of its own."""
    orders = channels(sizes)
    pieces = orders.size
    rounds = Rounds(orders.shape[1], size_B / pieces, ports=len(orders))
    edges = cut(0, pieces, len(orders))
    for channel, order in enumerate(orders):
        port = rounds.through(channel)
        port.start(order[np.newaxis, :], float(start_s(sizes, links)))
        for turn in TURNS[op]:
            get(turn, "ring").write(port, order[np.newaxis, :], edges[channel : channel + 1], edges[channel + 1 :][:1])
    return rounds.build()


def channels(sizes: Sequence[int]) -> Array:
    """[channel, k]: the k-th rank on the way of each channel."""
    top = _outermost(sizes)
    below = units_below(sizes)
    exits, index = places([*sizes[:top], 1]), np.arange(int(product(sizes)))
    return np.stack(
        [
            sum(
                (exits[level, channel] + 1 + index // below[level]) % sizes[level] * below[level]
                for level in range(top + 1)
            )
            for channel in range(below[top])
        ]
    )


def sharing(sizes: Sequence[int]) -> tuple[int, ...]:
    """Channels that share a rank's port of each level."""
    top = _outermost(sizes)
    inner = [max(1, (sizes[level] - 1) * int(product(sizes[level + 1 : top]))) for level in range(top)]
    return (*inner, *([1] * (len(sizes) - top)))


def _outermost(sizes: Sequence[int]) -> int:
    """The outermost level with more than one child; 0 when there is none."""
    return max((level for level, size in enumerate(sizes) if size > 1), default=0)


WAY = Way(price, program, work, count, "turns (n-1) max_l (alpha_l + S/n w_l beta_l) + (n-1)/n S sum_l w_l gamma_l")
