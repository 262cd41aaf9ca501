"""Steps that wait for the k-th fastest of n workers: the plain barrier, backup workers, dropping the slowest.

    barrier    wait for all n                  E[step] = E[X_(n:n)]
    backup:b   n + b workers compute, the first n count; b / (n + b) of the work is duplicated      E[X_(n:n+b)]
    drop:d     n workers compute, the first n - d count; d / n of every batch is lost               E[X_(n-d:n)]
X_(k:n) is the k-th smallest of n independent times: exact for every law (`simulate.law`); exponential: mean * H_n for
the barrier. Dropping biases the gradient when slowness depends on the data.

Source: J. Chen et al., "Revisiting distributed synchronous SGD", ICLR workshop 2016, sections 2 and 3 (backup workers).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.failures.stragglers.mitigation import Array, Mitigation, Paid, check_count, draw
from lockstep.failures.stragglers.order import order_quantile_s
from lockstep.simulate import Law, Progress, unseen


class Waiting(Mitigation):
    """A step that ends with the `used`-th fastest of the `launched` workers."""

    def expected_s(self, law: Law, workers: int) -> float:
        """E[X_(used : launched)]."""
        return law.expected_order_s(self.used(workers), self.launched(workers))

    def quantile_s(self, law: Law, workers: int, fraction: float) -> float:
        """Quantile of X_(used : launched)."""
        return order_quantile_s(law, self.used(workers), self.launched(workers), fraction)

    def steps_s(
        self, law: Law, factor: Array, comm_s: float, numbers: int, generator: Any, progress: Progress = unseen
    ) -> tuple[Array, Array]:
        """Independent steps."""
        launched = len(factor)
        used = self._used_of(launched)
        parts: list[Array] = []
        steps = total = max(2, numbers // launched)
        while steps > 0:
            # A million numbers at a time, so that memory stays bounded.
            now = min(steps, max(1, 1_000_000 // launched))
            times_s = draw(law, factor, generator, now)
            parts.append(np.partition(times_s, used - 1, axis=1)[:, used - 1] + comm_s)
            steps -= now
            progress(total - steps, total)
        times = np.concatenate(parts)
        return times, times

    def _used_of(self, launched: int) -> int:
        """Gradients waited for when `launched` workers compute."""
        return launched


@dataclass(frozen=True, slots=True)
class Barrier(Waiting):
    """Nothing is done about slow workers: every step waits for all."""

    def paid(self, workers: int) -> Paid:
        """Only time."""
        return Paid()


@dataclass(frozen=True, slots=True)
class Backup(Waiting):
    """`spares` more workers than gradients needed; the slowest are ignored."""

    spares: int

    def check(self, workers: int) -> None:
        """Any number of spares from 0 on."""
        check_count("backup", self.spares, 0)

    def launched(self, workers: int) -> int:
        """n + b."""
        return workers + self.spares

    def _used_of(self, launched: int) -> int:
        return launched - self.spares

    def paid(self, workers: int) -> Paid:
        """b of n + b results are not needed."""
        return Paid(duplicated_frac=self.spares / self.launched(workers))


@dataclass(frozen=True, slots=True)
class Drop(Waiting):
    """The `dropped` slowest workers of each step do not count."""

    dropped: int

    def check(self, workers: int) -> None:
        """At least one worker must count."""
        check_count("drop", self.dropped, 0, workers)

    def used(self, workers: int) -> int:
        """n - d."""
        return workers - self.dropped

    def _used_of(self, launched: int) -> int:
        return launched - self.dropped

    def paid(self, workers: int) -> Paid:
        """d of n gradients are thrown away."""
        return Paid(lost_frac=self.dropped / workers)
