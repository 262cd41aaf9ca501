"""All-to-all with every peer, the ports of all levels at once.

    time = start + max_l peers_l (alpha_l + S/(n b_l)),   peers_l = (r_l - 1) r_0 ... r_{l-1}
n ranks, S bytes of send buffer per rank, start of the outermost level spanned. peers_l ranks meet a rank at level l;
its port there serves them in turn.

Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19 (2005), on all-to-all, one port per level.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.simulate.collectives.all_to_all.direct import exchange, keep_own
from lockstep.simulate.collectives.cost import Counts, LinkLike
from lockstep.simulate.collectives.levels.hierarchy import Sent, Way, product, start_s, units_below
from lockstep.simulate.collectives.registry import ROUND_OPERATIONS
from lockstep.simulate.collectives.rounds import Rounds, cut, everyone
from lockstep.simulate.program import Program


def price(op: str, ranks: Sequence[Number], links: Sequence[LinkLike], size_B: Number) -> Number:
    """Seconds; broadcasts."""
    total = product(ranks)
    slowest_s: Number = 0.0
    below: Number = 1.0
    for size, link in zip(ranks, links, strict=True):
        slowest_s = np.maximum(slowest_s, (size - 1) * below * (link.latency_s + size_B / (total * link.bandwidth_Bps)))
        below = below * size
    return slowest_s + start_s(ranks, links)


def work(op: str, sizes: Sequence[int], links: Sequence[LinkLike], size_B: float) -> float:
    """Both ends of a message for every pair, the own block, and a start at every level."""
    total = product(sizes)
    starts = total * len(sizes) if start_s(sizes, links) else 0
    return float(starts + 2 * total * (total - 1) + total + ROUND_OPERATIONS * (total - 1))


def count(op: str, sizes: Sequence[int], links: Sequence[LinkLike], size_B: float) -> Sent:
    """A message of S/n to every peer; the latencies in series are those of the port that is busy longest."""
    ranks = product(sizes)
    peers = [(size - 1) * below for size, below in zip(sizes, units_below(sizes), strict=True)]
    message_s = [float(link.latency_s + size_B / (ranks * link.bandwidth_Bps)) for link in links]
    busiest = int(np.argmax(np.multiply(peers, message_s)))
    return Sent(peers[busiest], tuple(Counts(ranks * many, many * size_B) for many in peers))


def program(op: str, sizes: Sequence[int], links: Sequence[LinkLike], size_B: float) -> Program:
    """At every level: to the units of the own unit of the level above, one further each time, and all ranks there."""
    ranks = int(product(sizes))
    rounds = Rounds(ranks, size_B / ranks, ports=len(sizes))
    edges, index = cut(np.zeros(1), np.full(1, ranks), ranks), np.arange(ranks)
    keep_own(rounds, everyone(ranks), edges)
    for level, (below, size) in enumerate(zip(units_below(sizes), sizes, strict=True)):
        port, unit = rounds.through(level), below * size
        port.start(everyone(ranks), float(start_s(sizes, links)))
        outer, place, inner = index // unit, index // below % size, index % below
        for turn in range(1, size):
            for step in range(below):
                peer = outer * unit + (place + turn) % size * below + (inner + step) % below
                exchange(port, everyone(ranks), edges, index, peer)
    return rounds.build()


WAY = Way(price, program, work, count, "max_l peers_l (alpha_l + S/n beta_l)")
