"""`Lateness`: what a rank that is made late costs the others, measured in one run against the steps without.

Before every second step the rank sleeps for the delay. A synchronous step takes what its slowest rank takes, so the
steps of the others are as much longer; where nobody waits for the slowest, they are not.

    predicted late step = step on time + delay
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from lockstep.errors import BadInput

if TYPE_CHECKING:
    from lockstep.failures.stragglers import LateRank
    from lockstep.measure.train.result import Step

LEAST_STEPS = 4
"""One step to warm up, then at least one with and one without."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """Median seconds of a step, of the ranks other than the late one."""

    rank: int
    delay_s: float
    on_time_s: float
    late_s: float

    @classmethod
    def of(cls, late: LateRank, steps: Sequence[Sequence[Step]], first_step: int) -> Lateness:
        """From what every rank (outer) saw of every step (inner) after `first_step` steps."""
        others = [one for rank, one in enumerate(steps) if rank != late.rank]
        by_step_s = [median(step.time_s for step in ranks) for ranks in zip(*others, strict=True)]
        numbered = list(enumerate(by_step_s, first_step + 1))[1:]
        late_s, on_time_s = (
            median(time_s for number, time_s in numbered if is_late(number) == which) for which in (True, False)
        )
        return cls(late.rank, late.delay_s, on_time_s, late_s)

    @property
    def growth_s(self) -> float:
        """How much longer the others' steps are when the rank is late."""
        return self.late_s - self.on_time_s

    @property
    def predicted_s(self) -> float:
        """A late step of a method that waits for all ranks in every step."""
        return self.on_time_s + self.delay_s

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {**asdict(self), "growth_s": self.growth_s, "predicted_late_s": self.predicted_s}


def is_late(number: int) -> bool:
    """Whether the rank is late for step `number`, counted from 1."""
    return number % 2 == 0


def refuse(late: LateRank, ranks: int, steps: int) -> None:
    """Raises BadInput for a straggler that cannot be measured."""
    if late.factor != 1:
        raise BadInput("training is delayed by a time, e.g. 1:20ms")
    if not late.rank < ranks or ranks < 2:
        raise BadInput(f"rank {late.rank} is not one of 0 to {ranks - 1}, or nothing waits for it")
    if steps < LEAST_STEPS:
        raise BadInput(f"needs at least {LEAST_STEPS} steps, with and without it, got {steps}")
