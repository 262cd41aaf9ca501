"""The critical batch: how many steps and how many examples a run takes at a given batch size.

    steps    S = S_min (1 + B_crit / B)
    examples E = S B = E_min (1 + B / B_crit)          E_min = S_min B_crit
    (S / S_min - 1) (E / E_min - 1) = 1
B: examples per step; S_min: steps with a batch without end; E_min: examples with the smallest batch. At B = B_crit both
are twice their least. One step obeys it exactly with B_crit = the noise scale; over a whole run it is an approximation,
because the noise scale grows while the loss falls.

    best rate(B) = best rate without noise / (1 + B_noise / B)
    B_noise  = tr(H Sigma) / (G' H G)                  exact for a quadratic
    B_simple = tr(Sigma) / |G|^2                       the same when H is a multiple of the identity
G: true gradient; Sigma: covariance of the gradient of one example; H: Hessian.

Source: McCandlish, Kaplan, Amodei, "An empirical model of large-batch training", 2018, equations 2.4 to 2.12 and the
appendix A.1 for the estimator from two batch sizes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lockstep.base.types.arrays import Array


def steps(batch: ArrayLike, least_steps: ArrayLike, critical_batch: ArrayLike) -> Array:
    """Steps to the target at `batch` examples a step. Broadcasts."""
    return np.asarray(np.multiply(least_steps, 1 + np.divide(critical_batch, batch)))


def examples(batch: ArrayLike, least_steps: ArrayLike, critical_batch: ArrayLike) -> Array:
    """Examples to the target at `batch` examples a step. Broadcasts."""
    return np.asarray(np.multiply(least_steps, np.add(batch, critical_batch)))


def extra_steps_frac(batch: ArrayLike, critical_batch: ArrayLike) -> Array:
    """Share of steps above the least, B_crit / B. Broadcasts."""
    return np.asarray(np.divide(critical_batch, batch))


def extra_examples_frac(batch: ArrayLike, critical_batch: ArrayLike) -> Array:
    """Share of examples above the least, B / B_crit. Broadcasts."""
    return np.asarray(np.divide(batch, critical_batch))


def best_rate_frac(batch: ArrayLike, noise_scale: ArrayLike) -> Array:
    """Best learning rate, and the best gain of one step, as a share of what they are without noise. Broadcasts."""
    return np.asarray(1 / (1 + np.divide(noise_scale, batch)))


def two_batch_estimate(
    small_squared: ArrayLike, large_squared: ArrayLike, small_batch: ArrayLike, large_batch: ArrayLike
) -> tuple[Array, Array]:
    """(|G|^2, tr Sigma), both without bias, from the squared norms of gradients over a small and a large batch.

    E |g_B|^2 = |G|^2 + tr Sigma / B at two batch sizes are two equations. Their ratio, tr Sigma / |G|^2, is the simple
    noise scale; average each over many steps before dividing, as the mean of ratios is biased. Broadcasts.
    """
    small, large = np.asarray(small_batch, dtype=np.float64), np.asarray(large_batch, dtype=np.float64)
    small_squared, large_squared = np.asarray(small_squared), np.asarray(large_squared)
    gradient_squared = (large * large_squared - small * small_squared) / (large - small)
    trace = (small_squared - large_squared) / (1 / small - 1 / large)
    return np.asarray(gradient_squared), np.asarray(trace)
