"""Post-local SGD: synchronous at first, while the weights move fast, local steps later.

    average after every step until `switch_frac` of the run, then after every H-th
Source: Lin, Stich, Patel, Jaggi 2020, "Don't use large mini-batches, use local SGD" (arXiv 1808.07217), section 3.
"""

from __future__ import annotations

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.learn.methods.local import Outer
from lockstep.run.train.method import Losses, Method, register
from lockstep.run.train.methods.local_sgd import BUFFERS, PERIOD, train_in_rounds
from lockstep.run.train.worker import Worker


@dataclass(frozen=True, slots=True)
class Settings:
    """When it becomes local, and the rounds after that."""

    switch_frac: float = setting(0.5, "Share of the steps that are synchronous.", least=0, most=1)
    period: int = PERIOD
    buffers: str = BUFFERS


def run(worker: Worker, settings: Settings) -> Losses:
    """Averages always, later after every period."""
    synchronous = settings.switch_frac * worker.task.steps

    def ends(done: int) -> bool:
        return done <= synchronous or done % settings.period == 0

    return train_in_rounds(worker, ends, Outer(), settings.buffers)


POST_LOCAL_SGD = register(
    Method(
        name="post-local-sgd",
        family="local steps",
        summary="synchronous first, local steps later",
        source="Lin et al. 2020 (arXiv 1808.07217), section 3",
        run=run,
        settings=Settings,
        neutral={"switch_frac": 1.0},
    )
)
