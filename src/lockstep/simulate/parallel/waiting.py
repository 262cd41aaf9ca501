"""Seconds that ranks wait for slower ones, where kernels do not take equally long everywhere and every time.

In pass k the kernels of rank i take r_i x_ik times their mean: x of a law X, drawn for every rank and pass (jitter);
r of a law R, drawn once for every rank (devices that differ). Both laws are taken relative to their means.

    inside a pass      n ranks wait for one another in every layer, so it takes e(n) = E[max of n X] of its kernels
                       on average, with standard deviation v(n)
    along a pipeline   p stages hand over in every one of m rounds:      at most  c(p) v(n) h  more per round
    at the end         d groups meet after m micro-batches:              c(d) v(n) h sqrt(m / chunks)  more
    in every round     the slowest of all w ranks is waited for:         rho(w) = E[max of w R]  times as long,
                       or, of a stage that takes longer than others, the slowest of its own: rho(n d)
    filling, draining  stages follow one another, each at the pace of its own slowest rank: rho(n)

    waiting = max{rho(w) e(n) S, rho(n d) e(n) (S + X)} - (S + X) + (rho(n) e(n) - 1) G
              + rho(w) v(n) h (m c(p) + sqrt(m / chunks) c(d))

Of the kernels on the step's critical path G seconds fill and drain the pipeline, X are what its heaviest stage takes
more than the others, S the rest; h = sqrt(F^2 + B^2), the kernels of a forward and of a backward pass of one
micro-batch; c(n) the expected largest of n standard normals, c(1) = 0; chunks of the model on a stage.

Without stages it is exact but for sums of many passes, which are taken as normal, and for traffic that longer kernels
would hide. With stages what R costs is close to exact, with chunks that take turns up to a half too much
(tests/step/test_jitter.py), and what jitter costs an upper bound: not every round waits for its slowest stage.

Source: H. A. David and H. N. Nagaraja, Order Statistics, 3rd ed. 2003, section 4.2 (expected maxima); for pipelines,
F. Baccelli et al., Synchronization and Linearity, 1992, section 8.3 (stochastic max-plus systems and their bounds).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Ints, Number, Whole
from lockstep.simulate.play.law import Constant, Law, Normal, Pareto
from lockstep.simulate.play.law_text import parse_law

ALIKE = Constant(1.0)
WIDEST, POINTS = 7.0, 1401
"""Of the integral over standard normals: beyond 7 lies 1e-12 of them."""
MOST_CV = 0.5
"""Of a factor: a wider law is no jitter, and its normal sums are far off."""


@dataclass(frozen=True, slots=True)
class Slower:
    """How much longer the kernels of a step take, as shares of seconds that `waiting_s` multiplies."""

    of_path: Number
    """Of the kernels on the critical path."""
    of_stage: Number
    """Of those of a stage that takes longer than the others."""
    of_fill: Number
    """Of those in which a pipeline fills and drains."""
    of_round: Number
    """Of the root of the squared seconds of a forward and a backward pass."""

    def waiting_s(
        self, path_s: Number, forward_s: Number, backward_s: Number, fill_s: Number = 0.0, more_s: Number = 0.0
    ) -> Number:
        """Seconds of waiting in a step with `path_s` of kernels on its critical path, passes of so many each.

        Of the path `fill_s` fill and drain a pipeline, and `more_s` are what its heaviest stage alone takes.
        """
        rounds_s = path_s - fill_s
        late_s = np.maximum(self.of_path * (rounds_s - more_s) - more_s, self.of_stage * rounds_s)
        return late_s + self.of_fill * fill_s + self.of_round * np.hypot(forward_s, backward_s)


def slower(
    jitter: str | None, rank_jitter: str | None, *, inner: Ints, stages: int, replicas: Ints, ranks: int,
    microbatches: Whole, chunks: Whole = 1,
) -> Slower | None:  # fmt: skip
    """What laws of factors cost: `inner` ranks wait in every layer, `replicas` groups of them at the end of a step.

    None where neither law is given. Raises BadInput for a text that is no law of factors.
    """
    if jitter is None and rank_jitter is None:
        return None
    each, whole = factor_law(jitter), factor_law(rank_jitter)
    rho = _slowest(whole, ranks)
    fill, stage = (_over(lambda n: _slowest(whole, n), of) for of in (inner, inner * replicas))
    mean, spread = _over(lambda n: _slowest(each, n), inner), _over(lambda n: _spread(each, n), inner)
    normal = Normal(0.0, 1.0)
    rounds = microbatches * normal.expected_max_s(stages)
    end = np.sqrt(microbatches / chunks) * _over(normal.expected_max_s, replicas)
    return Slower(rho * mean - 1.0, stage * mean - 1.0, fill * mean - 1.0, rho * spread * (rounds + end))


def factor_law(text: str | None, where: str | None = None) -> Law:
    """The law of a factor on the time of kernels, such as `lognormal:mean=1,cv=0.02`; always 1 for None.

    Raises BadInput where the text is no law, or one without a mean and a variance, or too wide for the formulas.
    """
    return ALIKE if text is None else _factor_law(text, where)


@lru_cache(maxsize=64)
def _factor_law(text: str, where: str | None) -> Law:
    law = parse_law(text, where)
    if isinstance(law, Pareto) and law.shape <= 2:
        raise BadInput(f"a Pareto law of shape {law.shape:g} has no variance; give a shape above 2", where)
    if _spread(law, 1) > MOST_CV:
        raise BadInput(f"{text} varies by {_spread(law, 1):.0%} of its mean; at most {MOST_CV:.0%} is jitter", where)
    return law


def _slowest(law: Law, ranks: int) -> float:
    """Expected largest of so many factors, relative to their mean."""
    return law.expected_max_s(ranks) / law.mean_s


@lru_cache(maxsize=1024)
def _spread(law: Law, ranks: int) -> float:
    """Standard deviation of the same, by the trapezoid rule over the normal quantile of the largest."""
    z = np.linspace(-WIDEST, WIDEST, POINTS)
    normal = NormalDist()
    factors = np.array([law.quantile_s(normal.cdf(one) ** (1.0 / ranks)) for one in z.tolist()]) / law.mean_s
    weight = np.exp(-(z**2) / 2)
    return math.sqrt(float(np.average((factors - np.average(factors, weights=weight)) ** 2, weights=weight)))


def _over(law: Callable[[int], float], counts: Ints) -> Number:
    """`law` of every count."""
    found, places = np.unique(counts, return_inverse=True)
    return np.array([law(int(one)) for one in found])[places].reshape(np.shape(counts))
