"""Runs of a program under torch.profiler: a step for each, its messages and computations by name.

Messages of a pipeline are of the group `0-1` of their two ranks, those that make up a collective of `message0-1`: only
the former are the pipeline's. These runs come after the measured ones, which no profiler slows.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, closing

from lockstep.run.execute.cores import start_together
from lockstep.run.execute.lanes import Task
from lockstep.run.execute.runner import UNNAMED, Runner
from lockstep.run.profiling import WARM_UP, Profiling, annotated, computing
from lockstep.simulate.program import Kind

PIPELINE = "pipeline"
RUNS = WARM_UP + 6


def profile_runs(runner: Runner, folder: str, op: str) -> None:
    """Runs the program some times and writes the profile of this rank into the folder. All ranks call it."""
    rank, part_of = runner.rank.number, "" if op == PIPELINE else "message"

    def named(task: Task) -> AbstractContextManager[object]:
        match task.kind:
            case Kind.SEND:
                return annotated("send", task.size_B, task.tag, f"{part_of}{rank}-{task.peer}")
            case Kind.RECV:
                return annotated("recv", task.size_B, task.tag, f"{part_of}{task.peer}-{rank}")
            case Kind.BARRIER:
                return annotated("barrier", 0, task.id, f"world{task.group}")
            case _ if task.duration_s:
                return computing(task.label or "computation")
        return UNNAMED

    runner.named = named
    with closing(Profiling(folder, rank)) as profiling:
        for turn in range(RUNS):
            start_together()
            profiling.step(turn)
            runner.run()
            profiling.end()
