"""Parameter server, asynchronous: each push is added and answered at once, nobody waits for the other workers.

    time of one update from every worker = n (alpha + c (beta + gamma)) + alpha + c beta,   c = largest shard = S/s
n workers, s = `shards` servers beside them. Answers overlap with the next push, so the server's receive port is the
bottleneck: at most 1 / (alpha + c (beta + gamma)) updates per second however many workers. A worker's gradient is n -
1 updates old on average.

Source: J. Dean et al., "Large scale distributed deep networks", NIPS 2012; Q. Ho et al., "More effective distributed
ML via a stale synchronous parallel parameter server", NIPS 2013.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.cost import LinkLike, Terms
from lockstep.simulate.collectives.parameter_server.synchronous import counts, settle
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split, shards: Number = 1) -> Terms:
    """n pushes added one after another, and the last answer."""
    shard_B = split.largest_B(size_B, settle(ranks, size_B, link, split, shards)["shards"])
    return Terms(ranks + 1, (ranks + 1) * shard_B, ranks * shard_B)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole, shards: int = 1) -> None:
    """Round t: server j adds the push of worker t + j and answers it in the next round from a copy."""
    workers = members.shape[1]
    server = np.arange(int(shards))
    edges = cut(start, stop, int(shards))
    first, last = edges[0, :-1], edges[0, 1:]
    for turn in range(workers):
        worker = members[0, (turn + server) % workers]
        # A worker pushes its shards without waiting for the answers to the ones before.
        rounds.messages(worker, workers + server, first, last, reduce=True, after=np.full(len(server), -1))
        answer = (1 + turn) * edges[0, -1]
        rounds.copies(workers + server, answer + first, answer + last, "data", first, "answers")
        rounds.messages(
            workers + server, worker, answer + first, answer + last,
            buffer="answers", to_buffer="data", to_start=first,
            after=rounds.last[workers + server, 1],
        )  # fmt: skip


ASYNCHRONOUS = register(
    Algorithm(
        op="parameter-server",
        name="asynchronous",
        terms=terms,
        counts=counts,
        formula="n(alpha + S/s (beta + gamma)) + alpha + S/s beta",
        source="Dean et al. 2012",
        stale=True,
        choices=("shards",),
        examples=({"shards": 3},),
        settle=settle,
        pieces=lambda ranks, shards=1, **choices: int(shards),
        helpers=lambda ranks, shards=1, **choices: int(shards),
        write=write,
    )
)
