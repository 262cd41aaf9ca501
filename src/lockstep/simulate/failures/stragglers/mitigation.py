"""`Mitigation`: a way to live with slow workers: how long a step takes, and what it pays in lost or duplicated work.

A step ends when `used` gradients of `launched` workers are in. Subclasses say which ones a step waits for; times of
workers are independent draws of one law, times a fixed factor per worker where the slowness is persistent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.base.types.progress import Progress
from lockstep.simulate.play import Law, unseen


@dataclass(frozen=True, slots=True)
class Paid:
    """What a step costs beside time, as fractions and steps."""

    duplicated_frac: float = 0.0
    """Work computed for a gradient that another worker delivers, over all work."""
    lost_frac: float = 0.0
    """Gradients of the batch that are thrown away."""
    stale_steps: float = 0.0
    """Most steps by which the parameters of a gradient may be behind."""
    steps_between_averages: int = 1
    """Local steps between two moments at which all workers agree."""


class Mitigation(ABC):
    """One way; `workers` is the number of gradients in a full batch."""

    def check(self, workers: int) -> None:  # noqa: B027 - most mitigations fit any number of workers
        """BadInput when it does not fit `workers`."""

    def launched(self, workers: int) -> int:
        """Workers that compute every step."""
        return workers

    def used(self, workers: int) -> int:
        """Gradients that count every step."""
        return workers

    def comm_share(self) -> float:
        """Synchronisations per step."""
        return 1.0

    @abstractmethod
    def paid(self, workers: int) -> Paid:
        """What it pays."""

    def expected_s(self, law: Law, workers: int) -> float | None:
        """Exact expected computing time of a step, None where no closed form is known."""
        return None

    def quantile_s(self, law: Law, workers: int, fraction: float) -> float | None:
        """Exact quantile of a step's computing time, None where none is known."""
        return None

    @abstractmethod
    def steps_s(
        self,
        law: Law,
        factor: Array,
        comm_s: float,
        numbers: int,
        generator: np.random.Generator,
        progress: Progress = unseen,
    ) -> tuple[Array, Array]:
        """Simulated times of steps with communication: (independent means [means], single steps [singles]).

        `factor` [workers]: fixed slowdown of each worker; about `numbers` random numbers are drawn. `progress` hears
        (done, total) now and then.
        """


def draw(law: Law, factor: Array, generator: np.random.Generator, *shape: int) -> Array:
    """Times [*shape, workers]: draws times the fixed `factor` [workers] of each worker, never negative."""
    size = int(np.prod(shape)) * len(factor)
    times_s = np.maximum(law.draw(generator, size), 0.0).reshape(*shape, len(factor))
    return np.asarray(times_s * factor)


def check_count(name: str, value: int, smallest: int, below: int | None = None) -> None:
    """BadInput unless smallest <= value < below."""
    if value < smallest or (below is not None and value >= below):
        room = f"at least {smallest}" + (f" and below {below}" if below is not None else "")
        raise BadInput(f"{name}:{value} must be {room}", "mitigation")
