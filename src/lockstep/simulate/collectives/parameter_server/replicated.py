"""Parameter server, replicated: each of R servers adds the pushes of n/R workers, the servers all-reduce, workers pull.

    time = 2 (n/R) (alpha + S beta) + (n/R) S gamma + ring all-reduce of S among R servers
n workers, R = `replicas` servers beside them, R dividing n (default: the largest divisor up to sqrt n). Every server
holds all the parameters, so any of them can fail; the price is the all-reduce among them.

Source: M. Li et al., OSDI 2014 (replication after aggregation).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.base.types.plain import Json
from lockstep.simulate.collectives.all_reduce import ring
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds
from lockstep.simulate.collectives.shares import Split, square_divisor, whole_nodes


def settle(ranks: Number, size_B: Number, link: LinkLike, split: Split, replicas: Number | None = None) -> Json:
    """Number of replicas, checked to divide the workers."""
    return {"replicas": square_divisor(ranks) if replicas is None else whole_nodes(ranks, replicas)}


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split, replicas: Number | None = None) -> Terms:
    """n/R pushes, ring among the servers, n/R pulls."""
    servers = settle(ranks, size_B, link, split, replicas)["replicas"]
    each = ranks / servers
    return Terms(2 * each, 2 * each * size_B, each * size_B) + ring.terms(servers, size_B, link, split)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split, replicas: Number | None = None) -> Counts:
    """2 n messages of the whole buffer and the ring's."""
    servers = settle(ranks, size_B, link, split, replicas)["replicas"]
    return Counts(2 * ranks, 2 * ranks * size_B, ranks * size_B) + ring.counts(servers, size_B, link, split)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole, replicas: int = 1) -> None:
    """Server r serves workers r, r + R, ...; servers are the ranks after the workers, their buffers begin as zeros."""
    servers = members.shape[1] + np.arange(int(replicas))
    served = members.reshape(-1, int(replicas))
    for workers in served:
        rounds.messages(workers, servers, start, stop, reduce=True)
    ring.write(rounds, servers[np.newaxis, :], start, stop)
    for workers in served:
        rounds.messages(servers, workers, start, stop)


REPLICATED = register(
    Algorithm(
        op="parameter-server",
        name="replicated",
        terms=terms,
        counts=counts,
        formula="2(n/R)(alpha + S beta) + (n/R) S gamma + ring(R, S)",
        source="Li et al. 2014",
        choices=("replicas",),
        examples=({"replicas": 2},),
        settle=settle,
        pieces=lambda ranks, replicas=1, **choices: int(replicas),
        helpers=lambda ranks, replicas=1, **choices: int(replicas),
        write=write,
    )
)
