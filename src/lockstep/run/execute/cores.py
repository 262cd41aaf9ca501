"""Messages and additions of ranks that share one machine, timed as rounds of programs that do nothing else.

    together   in a round every rank sends to the next
    alone      ranks 0 and 1 send in turn; the others wait
    seconds of a round = (time of MANY rounds - time of one) / (MANY - 1)
    start = time of one round - seconds of a round, the median over sizes
Rounds run as the program will: by its threads, in its pieces, through memory as large as its own, since copies out of
the caches cost several times as much as within. What a round with additions takes longer is the addition.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.run.execute.exchange import link_through
from lockstep.run.execute.lanes import lanes_of
from lockstep.run.execute.runner import Runner
from lockstep.run.launch import Rank
from lockstep.simulate.collectives import PlainLink
from lockstep.simulate.collectives.rounds import Rounds
from lockstep.simulate.play import SharedCores, Timed
from lockstep.simulate.program import Program, extents

Pairs = Callable[[int, int], tuple[Array, Array]]
"""(ranks, turn) -> senders and receivers of a round."""
ELEMENT_B = 4
MANY = 6
MOST_MEMORY_B = 1 << 26
"""Larger than the caches of a processor: more would not be slower."""
USUAL_B = (64, 65536)
"""Timed always, so that there is a latency and a rate to tell."""
MOST_SIZES = 5
LARGEST_B = MOST_MEMORY_B // 4
"""Larger messages are in proportion: they are copies out of memory."""
PAUSE_S = 1e-3
"""For the launcher to be done with what the last run told it; assumed."""
NEVER_NS = 1 << 62
"""When a rank starts that has nothing to do."""


def sizes_to_time(sizes_B: Array) -> tuple[int, ...]:
    """The sizes of a program's messages in whole elements up to LARGEST_B, MOST_SIZES of them, and the usual ones."""
    whole_B = np.rint(np.clip(sizes_B, ELEMENT_B, LARGEST_B) / ELEMENT_B).astype(np.int64) * ELEMENT_B
    known = np.unique(whole_B)
    chosen = known[np.unique(np.linspace(0, len(known) - 1, MOST_SIZES).round().astype(int))]
    return tuple(sorted({*USUAL_B, *chosen.tolist()}))


def time_cores(rank: Rank, sizes_B: Sequence[int], memory_B: int, repeats: int = 5) -> SharedCores:
    """What messages and additions of some sizes need; the same on every rank. All ranks call it together."""
    found, starts_s = [], []
    for size_B in sizes_B:
        places = max(1, min(memory_B, MOST_MEMORY_B) // size_B)
        (alone_s, _), (added_alone_s, _), (together_s, start_s), (added_together_s, _) = (
            _round_s(rank, size_B, places, pairs, add, repeats)
            for pairs in (_in_turn, _everyone)
            for add in (False, True)
        )
        add_s = max(0.0, added_alone_s - alone_s), max(0.0, added_together_s - together_s)
        found.append(Timed(size_B, alone_s, together_s, *add_s))
        starts_s.append(start_s)
    return SharedCores(rank.ranks, tuple(found), max(0.0, median(starts_s)))


def link_of(cores: SharedCores) -> PlainLink:
    """Latency and bandwidth of a message that is alone."""
    largest = cores.timed[-1]
    return link_through([(one.size_B, one.alone_s) for one in cores.timed], largest.add_alone_s / largest.size_B)


def start_together() -> None:
    """Before a run that is timed: what the launcher and the others do about the last one is over, all are here."""
    import torch.distributed as dist

    time.sleep(PAUSE_S)
    dist.barrier()


def _everyone(ranks: int, turn: int) -> tuple[Array, Array]:
    """Senders and receivers of a round in which every rank sends to the next."""
    return np.arange(ranks), (np.arange(ranks) + 1) % ranks


def _in_turn(ranks: int, turn: int) -> tuple[Array, Array]:
    """Sender and receiver of a round in which rank 0 or 1 sends to the other."""
    return np.array([turn % 2]), np.array([1 - turn % 2])


def _round_s(rank: Rank, size_B: int, places: int, pairs: Pairs, add: bool, repeats: int) -> tuple[float, float]:
    """(median seconds of a round, a nanosecond at least; what the first takes longer)."""
    one_s, many_s = (
        median(_makespans_s(rank, _rounds(rank.ranks, size_B, places, turns, pairs, add), repeats))
        for turns in (1, MANY)
    )
    round_s = max(1e-9, (many_s - one_s) / (MANY - 1))
    return round_s, one_s - round_s


def _rounds(ranks: int, size_B: int, places: int, turns: int, pairs: Pairs, add: bool) -> Program:
    """Rounds one after another, each on the next place of the buffer."""
    rounds, elems = Rounds(ranks, ELEMENT_B), size_B // ELEMENT_B
    for turn in range(turns):
        start = turn % places * elems
        senders, receivers = pairs(ranks, turn)
        rounds.messages(senders, receivers, start, start + elems, reduce=add)
    return rounds.build()


def _makespans_s(rank: Rank, program: Program, repeats: int, warm_up: int = 1) -> list[float]:
    """Seconds from the first start to the last end of each run, on one machine's clock."""
    import torch
    import torch.distributed as dist

    buffers = {name: torch.zeros(int(extent[rank.number])) for name, extent in extents(program).items()}
    runner = Runner(rank, lanes_of(program, rank.number), buffers, "calibration", {})
    ends = torch.zeros((repeats, 2), dtype=torch.int64)
    for turn in range(-warm_up, repeats):
        start_together()
        spans = runner.run()
        if turn >= 0:
            ends[turn] = torch.tensor((-min(spans.start_ns, default=NEVER_NS), max(spans.end_ns, default=-NEVER_NS)))
    runner.close()
    dist.all_reduce(ends, dist.ReduceOp.MAX)
    return (ends.sum(dim=1).double() / 1e9).tolist()
