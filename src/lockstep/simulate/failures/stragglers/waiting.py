"""Steps that wait for the k-th fastest of n workers: the plain barrier, backup workers, dropping the slowest.

    barrier    wait for all n                  E[step] = E[X_(n:n)]
    backup:b   n + b workers compute, the first n count; b / (n + b) of the work is duplicated      E[X_(n:n+b)]
    drop:d     n workers compute, the first n - d count; d / n of every batch is lost               E[X_(n-d:n)]
X_(k:n) is the k-th smallest of n independent times: exact for every law (`simulate.law`); exponential: mean * H_n for
the barrier. Dropping biases the gradient when slowness depends on the data.

Source: J. Chen et al., "Revisiting distributed synchronous SGD", ICLR workshop 2016, sections 2 and 3 (backup workers).

`order_quantile_s`: how long the k-th fastest of n takes in 1, 5 or 50 % of the steps.

    P(k-th smallest of n <= x) = P(at least k of n trials succeed with probability F(x))
so its quantile is the law's own quantile at the p that solves  P(Binomial(n, p) >= k) = fraction;  p = fraction^(1/n)
for the slowest.

Source: H. A. David and H. N. Nagaraja, Order Statistics, 3rd ed. 2003, section 2.1.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.base.types.progress import Progress
from lockstep.simulate.failures.stragglers.mitigation import Mitigation, Paid, check_count, draw
from lockstep.simulate.play import Law, unseen
from lockstep.simulate.play.law import at_least


def order_quantile_s(law: Law, k: int, n: int, fraction: float) -> float:
    """Time below which the k-th smallest of n independent times lies in `fraction` of all cases."""
    return law.quantile_s(fraction ** (1 / n) if k == n else _probability(k, n, fraction))


def _probability(k: int, n: int, fraction: float) -> float:
    """p with P(Binomial(n, p) >= k) = fraction: bisection down to neighbouring floats."""
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if float(at_least(k, n, middle)) < fraction else (low, middle)
    return low


def any_above_frac(law: Law, workers: int, above_s: float) -> float:
    """Probability that at least one of `workers` takes longer than `above_s`: 1 - F(above_s)^n, by bisection of F."""
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if law.quantile_s(middle) < above_s else (low, middle)
    return 1 - low**workers


class Waiting(Mitigation):
    """A step that ends with the `used`-th fastest of the `launched` workers."""

    def expected_s(self, law: Law, workers: int) -> float:
        """E[X_(used : launched)]."""
        return law.expected_order_s(self.used(workers), self.launched(workers))

    def quantile_s(self, law: Law, workers: int, fraction: float) -> float:
        """Quantile of X_(used : launched)."""
        return order_quantile_s(law, self.used(workers), self.launched(workers), fraction)

    def steps_s(
        self,
        law: Law,
        factor: Array,
        comm_s: float,
        numbers: int,
        generator: np.random.Generator,
        progress: Progress = unseen,
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
