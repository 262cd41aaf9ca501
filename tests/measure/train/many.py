"""Many training runs in one launch of ranks, so that a test module starts its processes once."""

from dataclasses import dataclass, field
from typing import Any

from lockstep.run.launch import Rank, launch
from lockstep.run.train import Task, TrainRun, find_method
from lockstep.run.train.result import Outcome
from lockstep.run.train.run import read, work

STEPS = 6


@dataclass(frozen=True)
class Spec:
    """One run of a table of them."""

    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    task: dict[str, Any] = field(default_factory=dict)

    def full(self) -> Task:
        """Few steps in 64 bits, unless the spec says otherwise."""
        return Task(**{"steps": STEPS, "batch": 16, "dtype": "float64", **self.task})


def runs(ranks: int, specs: dict[Any, Spec]) -> dict[Any, TrainRun]:
    """All runs of a table, one after another on the same ranks."""
    jobs = [(one.method, one.full(), one.settings) for one in specs.values()]
    read_all = [read(method, task, ranks, settings) for method, task, settings in jobs]
    by_rank = launch(one_after_another, ranks, (jobs,), timeout_s=60)
    return {
        name: TrainRun.of(find_method(method), task, read_all[place], [outcomes[place] for outcomes in by_rank])
        for place, (name, (method, task, _)) in enumerate(zip(specs, jobs, strict=True))
    }


def one_after_another(rank: Rank, jobs: list[tuple[str, Task, Any]]) -> list[Outcome]:
    """What one rank saw of every run."""
    return [work(rank, *job) for job in jobs]
