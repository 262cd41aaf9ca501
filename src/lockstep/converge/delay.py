"""Gradient descent on old gradients: where it is stable, exactly.

    x_(t+1) = x_t + beta (x_t - x_(t-1)) - a lambda x_(t-tau)
    stable iff all roots of z^(tau+1) - (1 + beta) z^tau + beta z^(tau-1) + a lambda lie inside the unit circle
    edge       a lambda = 2 sin(theta / 2) |e^(i theta) - beta|
               theta the root of (tau - 1/2) theta + arg(e^(i theta) - beta) = pi / 2 in (0, pi]
    beta = 0   a lambda = 2 sin(pi / (2 (2 tau + 1)));   tau = 0: 2 (1 + beta);   tau = 1: 1 - beta
a step size, lambda curvature, tau updates between the read of the parameters and the write of their gradient, beta
momentum (heavy ball, v <- beta v + g, x <- x - a v).

Source: z on the unit circle and a lambda real in the characteristic polynomial; the left side of the equation for theta
grows with theta, so the first crossing is the edge. beta = 0: Levin and May, Theoretical Population Biology 1976.
"""

from __future__ import annotations

import cmath
import math

BISECTIONS = 200


def largest_stable_step(delay: int, momentum: float = 0.0) -> float:
    """a * lambda at the edge of stability, for a delay of 0, 1, ... updates and a momentum from 0 to below 1."""
    if momentum == 0:
        return 2 * math.sin(math.pi / (2 * (2 * delay + 1)))
    if delay == 0:
        return 2 * (1 + momentum)
    low, high = 0.0, math.pi
    for _ in range(BISECTIONS):
        theta = (low + high) / 2
        phase = (delay - 0.5) * theta + cmath.phase(cmath.exp(1j * theta) - momentum)
        low, high = (theta, high) if phase < math.pi / 2 else (low, theta)
    return 2 * math.sin(low / 2) * abs(cmath.exp(1j * low) - momentum)
