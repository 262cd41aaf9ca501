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
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.errors import BadInput, Infeasible, Violation


@dataclass(frozen=True, slots=True)
class Balance:
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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form in the words of the command line."""
        weighted, plain = gradient_variance(self.shares)
        return {
            "static_s": self.static_s,
            "balanced_s": self.balanced_s,
            "bound_s": self.bound_s,
            "shares": list(self.shares),
            "speedup": self.speedup,
            "weights": list(self.weights),
            "static_shares": list(self.static_shares),
            "static_fits": self.static_fits,
            "idle_frac": list(self.idle_frac),
            "variance_weighted": weighted,
            "variance_unweighted": plain,
        }


def balance(speeds: Sequence[float], batch: int, *, most: Sequence[int] | None = None, comm_s: float = 0.0) -> Balance:
    """The fastest split of `batch` samples over workers of `speeds` samples/s, each with at most most[i] samples.

    Ties go to the faster worker, then to the lower number. Raises BadInput; Infeasible when the batch does not fit.
    """
    _check(speeds, batch, most, comm_s)
    number = len(speeds)
    caps = [batch] * number if most is None else [min(batch, cap) for cap in most]
    if sum(caps) < batch:
        why = f"a batch of {batch} samples does not fit: the workers hold {sum(caps)} in all"
        raise Infeasible(why, [Violation("memory", batch - sum(caps), sum(caps))])
    bound_s = _fractional_s(speeds, batch, caps)
    shares = _whole_shares(speeds, batch, caps, bound_s)
    each, larger = divmod(batch, number)
    static = tuple(each + (i < larger) for i in range(number))
    return Balance(
        speeds=tuple(float(speed) for speed in speeds),
        batch=batch,
        shares=shares,
        static_shares=static,
        static_fits=all(share <= cap for share, cap in zip(static, caps, strict=True)),
        static_s=_longest_s(static, speeds) + comm_s,
        balanced_s=_longest_s(shares, speeds) + comm_s,
        bound_s=bound_s + comm_s,
    )


def gradient_variance(shares: Sequence[int]) -> tuple[float, float]:
    """Variance of the averaged gradient per variance of one sample: (weighted by samples, plain mean of workers).

    Workers without samples take no part.
    """
    taking = [share for share in shares if share]
    return 1 / sum(taking), math.fsum(1 / share for share in taking) / len(taking) ** 2


def _longest_s(shares: Sequence[int], speeds: Sequence[float]) -> float:
    return max(share / speed for share, speed in zip(shares, speeds, strict=True))


def _fractional_s(speeds: Sequence[float], batch: int, caps: Sequence[int]) -> float:
    """Time at which the workers have done `batch` samples, each stopping at its cap (water filling)."""
    order = sorted(range(len(speeds)), key=lambda i: caps[i] / speeds[i])
    left, rate = float(batch), math.fsum(speeds)
    for i in order:
        if rate <= 0 or left / rate <= caps[i] / speeds[i]:
            return left / rate
        left, rate = left - caps[i], rate - speeds[i]
    return max(cap / speed for cap, speed in zip(caps, speeds, strict=True))


def _whole_shares(speeds: Sequence[float], batch: int, caps: Sequence[int], bound_s: float) -> tuple[int, ...]:
    """What surely ends by the fractional time, then sample by sample to whoever would end first."""
    shares = [min(cap, math.floor(speed * bound_s * (1 - 1e-12))) for speed, cap in zip(speeds, caps, strict=True)]
    heap = [((shares[i] + 1) / speeds[i], -speeds[i], i) for i in range(len(speeds)) if shares[i] < caps[i]]
    heapq.heapify(heap)
    for _ in range(batch - sum(shares)):
        _, _, i = heapq.heappop(heap)
        shares[i] += 1
        if shares[i] < caps[i]:
            heapq.heappush(heap, ((shares[i] + 1) / speeds[i], -speeds[i], i))
    return tuple(shares)


def _check(speeds: Sequence[float], batch: int, most: Sequence[int] | None, comm_s: float) -> None:
    if not len(speeds) or not (np.isfinite(speeds).all() and min(speeds) > 0):
        raise BadInput("every worker needs a speed above 0 and finite, in samples per second", "speeds")
    if batch < 1 or batch > 10**12:
        raise BadInput(f"the batch must have 1 to 10^12 samples, got {batch}", "batch")
    if most is not None and len(most) != len(speeds):
        raise BadInput(f"{len(most)} memory limits for {len(speeds)} workers; give one each", "memory")
    if most is not None and min(most) < 0:
        raise BadInput(f"a memory limit cannot be negative, got {min(most)}", "memory")
    if not 0 <= comm_s < math.inf:
        raise BadInput(f"comm_s must be finite and not negative, got {comm_s}", "comm")
