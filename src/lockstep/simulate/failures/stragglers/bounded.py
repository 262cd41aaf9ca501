"""Bounded staleness: a worker may run ahead of the slowest one by at most s steps (stale synchronous parallel).

    finish_i(t) = max(finish_i(t - 1), all(t - 1 - s)) + x_i(t),   all(u) = max over i of finish_i(u)
finish_i(t): when worker i ends its step t; x_i(t) its time, communication included; all(u) = 0 for u <= 0. s = 0 is the
barrier. Transient slowness averages out inside the bound; persistent slowness does not: every worker ends up at the
rate of the slowest one, only later (after about s / (ratio of rates - 1) steps).

Source: Q. Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server", NIPS 2013.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.base.types.progress import Progress
from lockstep.simulate.failures.stragglers.mitigation import Mitigation, Paid, check_count, draw
from lockstep.simulate.play import Law, unseen
from lockstep.simulate.program import Program, ProgramBuilder

REPLICATIONS = 32
SETTLING_STEPS = 50
MOST_BOUND = 10_000
MOST_NUMBERS = 20_000_000
"""Times that are held at once."""


def finish_s(times_s: Array, bound: int) -> Array:
    """When each worker ends each step, for its times: `times_s` and the answer are [..., steps, workers]."""
    finish = np.empty_like(times_s, dtype=np.float64)
    now = np.zeros(times_s.shape[:-2] + times_s.shape[-1:])
    for step in range(times_s.shape[-2]):
        slowest = step - 1 - bound
        if slowest >= 0:
            now = np.maximum(now, finish[..., slowest, :].max(axis=-1, keepdims=True))
        now = now + times_s[..., step, :]
        finish[..., step, :] = now
    return finish


def program(times_s: Array, bound: int) -> Program:
    """The same as a program, for `times_s` [steps, workers]; a barrier per step on a lane of its own."""
    steps, workers = times_s.shape
    builder = ProgramBuilder(workers, ("compute", "clock"))
    clocks: list[tuple[int, ...]] = []
    for step in range(steps):
        gate = clocks[step - 1 - bound] if step > bound else None
        done = [
            builder.compute(i, float(times_s[step, i]), label=f"{step}", after=() if gate is None else gate[i])
            for i in range(workers)
        ]
        ids = builder.barrier(stream="clock")
        builder.depend(ids, done)
        clocks.append(ids)
    return builder.build()


@dataclass(frozen=True, slots=True)
class Bounded(Mitigation):
    """At most `bound` steps between the fastest and the slowest worker."""

    bound: int

    def check(self, workers: int) -> None:
        """A bound of 0 to MOST_BOUND whose simulation fits in memory."""
        check_count("bounded", self.bound, 0, MOST_BOUND + 1)
        if self._steps() * workers > MOST_NUMBERS:
            raise BadInput(
                f"bounded:{self.bound} on {workers} workers is too much to simulate; use fewer", "mitigation"
            )

    def _steps(self) -> int:
        """Fewest steps of a run: enough to settle, and as many again as at no bound."""
        return 2 * SETTLING_STEPS + 4 * self.bound

    def paid(self, workers: int) -> Paid:
        """Gradients on parameters that miss up to `bound` steps of the others."""
        return Paid(stale_steps=float(self.bound))

    def expected_s(self, law: Law, workers: int) -> float | None:
        """Exact where it is the barrier, and for one worker."""
        return law.expected_max_s(workers) if self.bound == 0 or workers == 1 else None

    def steps_s(
        self,
        law: Law,
        factor: Array,
        comm_s: float,
        numbers: int,
        generator: np.random.Generator,
        progress: Progress = unseen,
    ) -> tuple[Array, Array]:
        """Mean over the later steps of independent runs; single steps of all runs."""
        settling = SETTLING_STEPS + 4 * self.bound
        steps = max(self._steps(), numbers // (REPLICATIONS * len(factor)))
        together = max(1, MOST_NUMBERS // (steps * len(factor)))
        means, singles = [], []
        for first in range(0, REPLICATIONS, together):
            progress(first, REPLICATIONS)
            runs = range(first, min(first + together, REPLICATIONS))
            times_s = np.stack([draw(law, factor, generator, steps) for _ in runs]) + comm_s
            ends_s = finish_s(times_s, self.bound).max(axis=-1)
            means.append((ends_s[:, -1] - ends_s[:, settling - 1]) / (steps - settling))
            singles.append(np.diff(ends_s[:, settling - 1 :]).ravel())
        return np.concatenate(means), np.concatenate(singles)
