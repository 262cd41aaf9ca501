"""The variance that noise leaves: SGD at a constant step on one direction of a quadratic.

    x <- (1 - a h) x - a xi,   E xi^2 = V        stationary  E x^2 = a V / (h (2 - a h)),   a h < 2
a: step size, h: curvature, V: variance of a gradient (that of one example over the batch). The fixed point of
E x^2 = (1 - a h)^2 E x^2 + a^2 V; with a delay or momentum it is `delay.floor`, which agrees at delay 0.

Source: second moments of a linear recursion.
"""

from __future__ import annotations

import numpy as np

from lockstep.lab.findings import Array

EDGE = 1e-12
"""Room below a h = 2 that rounding cannot be told from."""


def stationary_variance(step_size: Array | float, curvature: Array | float, noise_variance: Array | float) -> Array:
    """E x^2 in the long run, infinite from the edge on. Broadcasts."""
    room = 2 - np.asarray(step_size) * curvature
    inside = room > EDGE
    return np.where(inside, step_size * np.asarray(noise_variance) / (curvature * np.where(inside, room, 1.0)), np.inf)
