"""Ranks as real processes: `launch` runs one importable function on each and returns what they return.

    def worker(rank: Rank, size: int) -> float:
        point("mid_all_reduce")
        ...

    values = launch(worker, ranks=4, arguments=(1024,), timeout_s=30)

On one machine ranks are forked from a warm server that has imported torch once; under torchrun or Slurm the process
that calls `launch` is one of the ranks already and the same worker runs in it. A failure is a `RunFailed` that names
rank, point and reason: `rank 1 killed by SIGKILL during reduce-scatter step 3`.
"""

from lockstep.base.errors import RunFailed
from lockstep.run.launch.failure import Failure
from lockstep.run.launch.launch import launch, warm_up
from lockstep.run.launch.place import Place, place
from lockstep.run.launch.points import Fault, point
from lockstep.run.launch.rank import Clock, Host, Rank

__all__ = ["Clock", "Failure", "Fault", "Host", "Place", "Rank", "RunFailed", "launch", "place", "point", "warm_up"]
