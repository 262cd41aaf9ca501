"""What the ranks of the launcher's tests do."""

import os
import time
from datetime import timedelta

from . import needs_torch as needs_torch  # isort: skip
import torch
import torch.distributed as dist

from lockstep.run.execute.worker import Report, Work, run_rank
from lockstep.run.launch import Rank, point


def sums(rank: Rank, number: int) -> tuple[int, float, str]:
    """All-reduces its number, step by step."""
    value = torch.full((1000,), float(number + rank.number))
    point("mid_all_reduce:0")
    dist.all_reduce(value)
    rank.tell({"rank": rank.number, "done": 1})
    point("mid_all_reduce:1")
    dist.all_reduce(value)
    return rank.number, float(value[0]), os.environ["RANK"]


def alone(rank: Rank) -> tuple[int, bool, int]:
    """Needs no process group."""
    return rank.number, dist.is_initialized(), torch.get_num_threads()


def unpicklable(rank: Rank) -> object:
    """Returns what cannot travel."""
    return lambda: rank


def large(rank: Rank) -> bytes:
    """Says its process id, then returns more than a pipe holds."""
    rank.tell(os.getpid())
    return bytes(1 << 24)


def hasty(rank: Rank) -> None:
    """All-reduces twice, the second time with a patience of a second."""
    value = torch.zeros(1)
    dist.all_reduce(value)
    point("mid_all_reduce:1")
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=1), dist.group.WORLD)
    dist.all_reduce(value)


def stuck(rank: Rank) -> None:
    """Rank 1 works without end, and says so, while rank 0 says its process id and returns."""
    point("mid_step:7")
    rank.tell(os.getpid())
    while rank.number == 1:
        time.sleep(0.1)
        rank.tell(os.getpid())


def leaves(rank: Rank) -> None:
    """Rank 1 leaves by sys.exit, in a collective of the others."""
    point("mid_all_reduce:0")
    if rank.number == 1:
        raise SystemExit(0)
    dist.all_reduce(torch.zeros(1))


def run_programs(rank: Rank, works: list[Work]) -> list[Report]:
    """Many programs in one launch."""
    return [run_rank(rank, work) for work in works]
