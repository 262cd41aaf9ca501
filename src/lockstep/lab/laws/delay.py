"""Gradient descent on old gradients, exactly: where it is stable, how fast it is, and the floor that noise leaves.

    x_(t+1) = x_t + beta (x_t - x_(t-1)) - a lambda x_(t-tau) + a xi_t
    stable iff all roots of z^(tau+1) - (1 + beta) z^tau + beta z^(tau-1) + a lambda lie inside the unit circle
    edge       a lambda = 2 sin(theta / 2) |e^(i theta) - beta|
               theta the root of (tau - 1/2) theta + arg(e^(i theta) - beta) = pi / 2 in (0, pi]
    beta = 0   a lambda = 2 sin(pi / (2 (2 tau + 1)));   tau = 0: 2 (1 + beta);   tau = 1: 1 - beta
    rate       the largest root |z|: the error falls by it with every step
    floor      E x^2 = P_00 with P = A P A^T + Q (discrete Lyapunov), A the companion matrix, Q_00 = a^2 s^2
               tau = 0, beta = 0: E x^2 = a V / (lambda (2 - a lambda)),  a lambda < 2,  V the variance of a gradient
a step size, lambda curvature, tau updates between the read of the parameters and the write of their gradient, beta
momentum (heavy ball, v <- beta v + g, x <- x - a v), xi noise of a gradient with standard deviation s.

Sources: z on the unit circle and a lambda real in the characteristic polynomial; the left side of the equation for
theta grows with theta, so the first crossing is the edge. beta = 0: Levin and May, Theoretical Population Biology 1976.
Floors: second moments of a linear recursion.
"""

from __future__ import annotations

import cmath
import math

import numpy as np

from lockstep.lab.findings import Array

BISECTIONS = 200
DOUBLINGS = 60


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


def companion(step_curvature: float, delay: int, momentum: float = 0.0) -> Array:
    """The matrix that takes (x_t, x_(t-1), ...) one step on; `step_curvature` is a * lambda."""
    size = max(delay + 1, 2 if momentum else 1)
    matrix = np.eye(size, k=-1)
    matrix[0, 0] += 1 + momentum
    if momentum:
        matrix[0, 1] -= momentum
    matrix[0, delay] -= step_curvature
    return matrix


def rate(step_curvature: float, delay: int, momentum: float = 0.0) -> float:
    """Factor by which the error of one direction falls (or grows) with every step in the long run."""
    return float(np.abs(np.linalg.eigvals(companion(step_curvature, delay, momentum))).max())


def floor(step_size: float, curvature: float, delay: int, momentum: float = 0.0, noise_std: float = 1.0) -> float:
    """Stationary E x^2 of one direction; infinite where it is not stable."""
    transition = companion(step_size * curvature, delay, momentum)
    if np.abs(np.linalg.eigvals(transition)).max() >= 1:
        return math.inf
    second = np.zeros_like(transition)
    second[0, 0] = (step_size * noise_std) ** 2
    for _ in range(DOUBLINGS):
        # P = sum of A^k Q A^kT, twice as many terms each time.
        more = transition @ second @ transition.T
        second = second + more
        transition = transition @ transition
        if np.abs(more).max() <= 1e-16 * np.abs(second).max():
            break
    return float(second[0, 0])


def best_step(delay: int, condition: float) -> tuple[float, float]:
    """(a * L, rate) of the constant step that is fastest for curvatures from L / `condition` to L, without momentum.

    The rate of a direction first falls and then rises with a * lambda, so the two ends decide.
    """
    low, high = 0.0, largest_stable_step(delay)
    shrink = (math.sqrt(5) - 1) / 2

    def slowest(step: float) -> float:
        return max(rate(step, delay), rate(step / condition, delay))

    for _ in range(60):
        left, right = high - shrink * (high - low), low + shrink * (high - low)
        low, high = (low, right) if slowest(left) < slowest(right) else (left, high)
    return (low + high) / 2, slowest((low + high) / 2)


EDGE = 1e-12
"""Room below a h = 2 that rounding cannot be told from."""


def stationary_variance(step_size: Array | float, curvature: Array | float, noise_variance: Array | float) -> Array:
    """E x^2 in the long run, infinite from the edge on. Broadcasts."""
    room = 2 - np.asarray(step_size) * curvature
    inside = room > EDGE
    return np.where(inside, step_size * np.asarray(noise_variance) / (curvature * np.where(inside, room, 1.0)), np.inf)
