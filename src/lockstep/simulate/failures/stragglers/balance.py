"""How to split a batch over workers of different speed and memory.

    static        the same share for everyone; a step lasts  ceil(B / n) / min(speed)
    proportional  share_i ~ speed_i; a step lasts  B / sum(speed);  static / proportional = mean(speed) / min(speed)
    capped        a worker takes no more than fits its memory; the others share the rest by speed (water filling)
Shares are whole samples: the B-th smallest of all  j / speed_i  (j = 1 .. cap_i) is the shortest possible step, and
the split that reaches it is exact. Gradients must be weighted by samples, w_i = share_i / B: then the sum of the mean
gradients of the workers is the mean over the batch, whatever the split. Plain averaging of unequal shares is unbiased
only when the samples are alike, and noisier: variance  sum(1 / share_i) / n^2  against  1 / B  per sample.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np

from lockstep.base.errors import BadInput, Infeasible, Violation
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.shown import Shown

SLOWEST_PER_S, FASTEST_PER_S = 1e-9, 1e15
"""Samples per second; beyond these a speed is taken for a mistake: the slower one is a sample in 32 years."""


@dataclass(frozen=True, slots=True, repr=False)
class Balance(Shown):
    """A split of `batch` samples; times include `comm_s`."""

    speeds: tuple[float, ...]
    batch: int
    shares: tuple[int, ...]
    static_shares: tuple[int, ...]
    static_fits: bool
    static_s: float
    balanced_s: float
    bound_s: float
    """With fractions of samples: no whole split is faster."""

    @property
    def weights(self) -> tuple[float, ...]:
        """Weight of each worker's mean gradient."""
        return tuple(share / self.batch for share in self.shares)

    @property
    def speedup(self) -> float:
        """static_s / balanced_s."""
        return self.static_s / self.balanced_s

    @property
    def idle_frac(self) -> tuple[float, ...]:
        """Share of the balanced step in which each worker waits (or communicates)."""
        return tuple(1 - share / speed / self.balanced_s for share, speed in zip(self.shares, self.speeds, strict=True))

    def to_dict(self) -> Json:
        """Plain JSON form with the names of the command line."""
        weighted, unweighted = gradient_variance(self.shares)
        shown = picked(self, "static_s balanced_s bound_s shares speedup weights static_shares static_fits idle_frac")
        return shown | {"variance_weighted": weighted, "variance_unweighted": unweighted}


def balance(speeds: Sequence[float], batch: int, *, most: Sequence[int] | None = None, comm_s: float = 0.0) -> Balance:
    """The fastest split of `batch` samples over workers of `speeds` samples/s, each with at most most[i] samples.

    Ties go to the faster worker, then to the lower number. Raises BadInput; Infeasible when the batch does not fit.
    """
    _check(speeds, batch, most, comm_s)
    number, rates = len(speeds), np.asarray(speeds, dtype=np.float64)
    caps = np.array([batch] * number if most is None else [min(batch, cap) for cap in most], dtype=np.int64)
    room = sum(caps.tolist())
    if room < batch:
        why = f"a batch of {batch} samples does not fit: the workers hold {room} in total"
        raise Infeasible(why, [Violation("memory", batch - room, room)])
    bound_s = _fractional_s(rates, batch, caps)
    shares = _whole_shares(rates, batch, caps, bound_s)
    each, larger = divmod(batch, number)
    static = np.where(np.arange(number) < larger, each + 1, each)
    return Balance(
        speeds=tuple(rates.tolist()),
        batch=batch,
        shares=tuple(shares.tolist()),
        static_shares=tuple(static.tolist()),
        static_fits=bool((static <= caps).all()),
        static_s=float((static / rates).max()) + comm_s,
        balanced_s=float((shares / rates).max()) + comm_s,
        bound_s=bound_s + comm_s,
    )


def gradient_variance(shares: Sequence[int]) -> tuple[float, float]:
    """Variance of the averaged gradient per variance of one sample: (weighted by samples, plain mean of workers).

    Workers without samples take no part.
    """
    taking = [share for share in shares if share]
    return 1 / sum(taking), math.fsum(1 / share for share in taking) / len(taking) ** 2


def _fractional_s(speeds: Array, batch: int, caps: Array) -> float:
    """Time at which the workers have done `batch` samples, each stopping at its cap (water filling)."""
    full_s = caps / speeds
    order = np.argsort(full_s, kind="stable")
    # Summed from the end: taken off the total one by one, the rates of the slow would be lost in rounding.
    rate = np.cumsum(speeds[order][::-1])[::-1]
    rate[0] = math.fsum(speeds)
    left = batch - (np.cumsum(caps[order]) - caps[order])
    ends = left / rate <= full_s[order]
    return float((left / rate)[np.argmax(ends)]) if ends.any() else float(full_s.max())


def _whole_shares(speeds: Array, batch: int, caps: Array, bound_s: float) -> Array:
    """What surely ends by the fractional time, then sample by sample to whoever would end first."""
    shares = np.minimum(caps, np.floor(speeds * bound_s * (1 - 1e-12))).astype(np.int64)
    left = batch - int(shares.sum())
    next_s = np.where(shares < caps, (shares + 1) / speeds, np.inf)
    # Of k samples none goes to a worker with k others before it; a sorted list is a heap.
    first = np.lexsort((-speeds, next_s))[:left]
    first = first[np.isfinite(next_s[first])]
    heap = list(zip(next_s[first].tolist(), (-speeds[first]).tolist(), first.tolist(), strict=True))
    for _ in range(left):
        _, slowness, i = heap[0]
        shares[i] += 1
        if shares[i] < caps[i]:
            heapq.heapreplace(heap, ((int(shares[i]) + 1) / -slowness, slowness, i))
        else:
            heapq.heappop(heap)
    return shares


def _check(speeds: Sequence[float], batch: int, most: Sequence[int] | None, comm_s: float) -> None:
    if not len(speeds) or not (np.isfinite(speeds).all() and min(speeds) > 0):
        raise BadInput("every worker needs a speed above 0 and finite, in samples per second", "speeds")
    for speed in (min(speeds), max(speeds)):
        if not SLOWEST_PER_S <= speed <= FASTEST_PER_S:
            room = f"must be {SLOWEST_PER_S:g} to {FASTEST_PER_S:g} samples per second, got {speed:g}"
            raise BadInput(f"a worker's speed {room}", "speeds")
    if batch < 1 or batch > 10**12:
        raise BadInput(f"the batch must have 1 to 10^12 samples, got {batch}", "batch")
    if most is not None and len(most) != len(speeds):
        raise BadInput(f"{len(most)} memory limits for {len(speeds)} workers; give one each", "memory")
    if most is not None and min(most) < 0:
        raise BadInput(f"a memory limit cannot be negative, got {min(most)}", "memory")
    if not 0 <= comm_s < math.inf:
        raise BadInput(f"comm_s must be finite and not negative, got {comm_s}", "comm")
