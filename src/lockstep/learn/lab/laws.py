"""What theory says in closed form: gradient descent on old gradients, what few bits lose, and the rounding of sums.

Descent on old gradients is known exactly: where it is stable, how fast it is, and the floor that noise leaves.

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

Numbers of few bits and compressed vectors: integrals of the normal law, and the additions of a program.

    tail(t) = P(|z| > t);   energy_above(t) = E[z^2; |z| > t] = tail(t) + 2 t phi(t)
    rounding_energy(p) = E (fl(z) - z)^2 = 4^(1 - p) / 12 sum over e of 4^e P(2^e <= |z| < 2^(e + 1))
phi: density; p: bits of a significand. The last one takes the error inside a step as uniform, which the density makes
right to second order in the step.

    E error^2 of a sum = sum over additions of  h^2 / 12 (1 + 2 / 4^k)  where k > 0,   h: spacing at the rounded sum
k: how many bits finer than h the finer of both sides is. A sum of two numbers of one octave has a single bit too
many, so its error is 0 or h / 2, which is 3/2 of what an even spread over a step gives; k <= 0 is exact. The bits cut
off are taken as even and independent. Depth and shape come from running the program on symbols; adding the zeros that
a server begins with is no addition.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.learn.methods.number_format import NumberFormat
from lockstep.simulate.program import Program
from lockstep.simulate.program.executor import execute

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


_NORMAL = NormalDist()
LEAST_OCTAVE, LAST_OCTAVE = -60, 6
"""Smaller and larger values of a standard normal have no share that a float64 would show."""


def tail(threshold: float) -> float:
    """P(|z| > threshold)."""
    return math.erfc(threshold / math.sqrt(2))


def threshold_of(tail_frac: float) -> float:
    """The threshold above which that share of |z| lies."""
    return -_NORMAL.inv_cdf(tail_frac / 2) if tail_frac < 1 else 0.0


def energy_above(threshold: float) -> float:
    """E[z^2; |z| > threshold]: the share of the squared length in the entries above it."""
    return tail(threshold) + 2 * threshold * _NORMAL.pdf(threshold)


def rounding_energy(precision_bits: int) -> float:
    """E (fl(z) - z)^2 for rounding to the nearest with that many bits of significand."""
    octaves = range(LEAST_OCTAVE, LAST_OCTAVE)
    return 4.0 ** (1 - precision_bits) / 12 * sum(4.0**e * (tail(2.0**e) - tail(2.0 ** (e + 1))) for e in octaves)


MIX = np.uint64(0x9E3779B97F4A7C15)
"""An odd number without pattern: the golden ratio in 64 bits, as in splitmix64 (Steele, Lea, Flood 2014)."""


NOTHING = -1
"""Depth of the zeros that a server begins with."""


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """All of shape (rank, entry)."""

    depth: Array
    """Additions one after the other on the longest way to the entry."""
    signature: Array
    """Equal for equal trees, where a + b is b + a."""


def tree_of(program: Program, ranks: int, elems: int) -> Tree:
    """The additions behind every entry of `data`."""
    empty = program.ranks - ranks
    levels = [np.zeros(elems, np.int64)] * ranks + [np.full(elems, NOTHING)] * empty
    depth = np.array(execute(program, {"data": levels}, combine=_deeper)["data"][:ranks])
    leaves = [np.full(elems, rank + 1, np.uint64) * MIX for rank in range(ranks)]
    leaves += [np.zeros(elems, np.uint64)] * empty
    signature = np.array(execute(program, {"data": leaves}, combine=_mixed)["data"][:ranks])
    return Tree(np.maximum(depth, 0), signature)


def _deeper(first: Array, second: Array) -> Array:
    """One addition more than the deeper side, where there is something on both."""
    real = (first > NOTHING) & (second > NOTHING)
    return np.maximum(first, second) + real


def rounding_sum(chosen: NumberFormat) -> Callable[[Array, Array], Array]:
    """A sum of (value, energy) pairs: values rounded to the format, energies as above."""

    def add(first: Array, second: Array) -> Array:
        values = chosen.rounded(first[:, 0] + second[:, 0])
        step = chosen.spacing(values)
        finer = np.minimum(_finest(first[:, 0], chosen), _finest(second[:, 0], chosen))
        share = np.where(finer < step, (1 + 2 * (finer / step) ** 2) / 12, 0.0)
        return np.stack([values, first[:, 1] + second[:, 1] + share * step**2], axis=1)

    return add


def _finest(values: Array, chosen: NumberFormat) -> Array:
    """Spacing at the values; a zero has no bits that could be cut off."""
    return np.where(values == 0, np.inf, chosen.spacing(values))


def _mixed(first: Array, second: Array) -> Array:
    """A number for the sum that both orders of its sides share."""
    total = first + second
    mixed = (total ^ (total >> np.uint64(31))) * MIX
    return np.where((first == 0) | (second == 0), total, mixed ^ (mixed >> np.uint64(29)))
