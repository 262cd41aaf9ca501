"""Parameter server, synchronous: all workers push their gradient, the server adds them, all workers pull the sum.

    time = 2 n (alpha + c beta) + n c gamma,   c = largest shard = S/s
n workers, s = `shards` servers beside them (default 1, at most n), S bytes of parameters. One server: 2 n messages of
p, its port carries n S each way. Shards divide that by s; with s = n on the workers themselves it is `all-reduce
direct`. Round t: server j talks to worker t + j, so that no port is asked twice at once; push and pull do not overlap.

Source: M. Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.base.types.plain import Json
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split, whole_choice


def settle(ranks: Number, size_B: Number, link: LinkLike, split: Split, shards: Number = 1) -> Json:
    """Number of shards, checked."""
    whole_choice("shards", shards)
    if np.any(np.asarray(shards) > ranks):
        raise BadInput(f"shards = {shards} for {ranks} workers: at most one per worker, more gain nothing", "shards")
    return {"shards": shards}


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split, shards: Number = 1) -> Terms:
    """The server with the largest shard: n pushes added, then n pulls."""
    carried_B = ranks * split.largest_B(size_B, settle(ranks, size_B, link, split, shards)["shards"])
    return Terms(2 * ranks, 2 * carried_B, carried_B)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split, shards: Number = 1) -> Counts:
    """2 n s messages; every worker sends and receives the whole buffer once."""
    return Counts(2 * ranks * shards, 2 * ranks * size_B, ranks * size_B)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole, shards: int = 1) -> None:
    """Servers are the ranks after the workers; their buffers begin as zeros."""
    workers = members.shape[1]
    server = np.arange(int(shards))
    edges = cut(start, stop, int(shards))
    first, last = edges[0, :-1], edges[0, 1:]
    for turn in range(workers):
        worker = members[0, (turn + server) % workers]
        rounds.messages(worker, workers + server, first, last, reduce=True)
    for turn in range(workers):
        worker = members[0, (turn + server) % workers]
        rounds.messages(workers + server, worker, first, last)


SYNCHRONOUS = register(
    Algorithm(
        op="parameter-server",
        name="synchronous",
        terms=terms,
        counts=counts,
        formula="2n(alpha + S/s beta) + n S/s gamma",
        source="Li et al. 2014",
        message_count="2n of p",
        choices=("shards",),
        examples=({"shards": 3},),
        settle=settle,
        pieces=lambda ranks, shards=1, **choices: int(shards),
        helpers=lambda ranks, shards=1, **choices: int(shards),
        write=write,
    )
)
