"""DiLoCo: many local steps, then a Nesterov step along what the workers moved on average.

    b <- mu b + delta;   x <- x - eta (delta + mu b)            delta = x - mean of y_k
eta outer rate, mu outer momentum; eta = 1, mu = 0 is plain averaging. The paper runs 500 steps of AdamW a round.

Source: Douillard et al. 2023, "DiLoCo" (arXiv 2311.08105), algorithm 1 and section 3 (eta = 0.7, mu = 0.9).
"""

from __future__ import annotations

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.learn.methods.local import Outer
from lockstep.run.train.method import Losses, Method, register
from lockstep.run.train.methods.local_sgd import BUFFERS, train_in_rounds
from lockstep.run.train.worker import Worker


@dataclass(frozen=True, slots=True)
class Settings:
    """The round and its outer step."""

    period: int = setting(20, "Local steps in a round.", least=1)
    outer_rate: float = setting(0.7, "Learning rate of the outer step.", above=0, most=10)
    outer_momentum: float = setting(0.9, "Nesterov, of the outer step.", least=0, below=1)
    buffers: str = BUFFERS


def run(worker: Worker, settings: Settings) -> Losses:
    """Outer Nesterov step after every round."""
    outer = Outer(settings.outer_rate, settings.outer_momentum, nesterov=True)
    return train_in_rounds(worker, lambda done: done % settings.period == 0, outer, settings.buffers)


DILOCO = register(
    Method(
        name="diloco",
        family="local steps",
        summary="long rounds alone, then an outer Nesterov step",
        source="Douillard et al. 2023 (arXiv 2311.08105), algorithm 1",
        run=run,
        settings=Settings,
        neutral={"period": 1, "outer_rate": 1.0, "outer_momentum": 0.0},
    )
)
