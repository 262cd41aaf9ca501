"""Right values of checks of the lab, computed apart from it: integrals, exact sums, plain loops, scipy, torch.

A check's typed value must be what is computed here, to the last digit that is typed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from evidence import oracles
from lockstep.check.evidence.claims.entry import Check
from lockstep.check.evidence.claims.shelf import entries, errata

Gradients = list[torch.Tensor]
DELAYS = (0, 1, 2, 4, 8, 16, 32)


def typed(name: str) -> list[Check]:
    """The checks of items and errata that name this one of the lab."""
    found = [check for entry in entries() for check in entry.every_check()]
    found += [one.check for one in errata() if one.check is not None]
    return [check for check in found if check.by == f"lab {name}"]


def floor(step: float, delay: int) -> float:
    """E x^2 of delayed descent under noise of variance 1: the integral of its spectrum."""
    z = np.exp(1j * np.linspace(-np.pi, np.pi, 400_001)[:-1])
    return float(np.mean(step**2 / np.abs(z - 1 + step * z**-delay) ** 2))


def slowest(step: float, delay: int) -> float:
    """Size of the largest root of delayed descent."""
    return float(np.abs(np.roots([1.0, -1.0, *[0.0] * (delay - 1), step] if delay else [1.0, step - 1])).max())


def noisy_updates(delay: int, gap: float = 0.003) -> float:
    """Updates to a loss of `gap` at the step whose floor is 0.9 of it: the mean and what the draws have become."""
    low, high = 0.0, 0.02
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if floor(middle, delay) / 2 < 0.9 * gap else (low, middle)
    mean, answer, variance, last = delayed(low, delay, 1000), [0.0] * delay + [1.0], 0.0, 0
    for at in range(1000):
        last = at if (mean[at] ** 2 + variance) / 2 > gap else last
        variance += (low * answer[-1]) ** 2
        answer.append(answer[-1] - low * answer[-1 - delay])
    return last + 1


def delayed(step: float, delay: int, steps: int) -> list[float]:
    path = [1.0]
    for at in range(steps):
        path.append(path[-1] - step * path[max(at - delay, 0)])
    return path


@cache
def best_updates(delay: int) -> int:
    """Updates until curvatures 1 and 1/100 both stay below 1e-4, at the step that is best for the slower of them."""

    def worst(step: float) -> float:
        return max(slowest(step, delay), slowest(step / 100, delay))

    edge = (0, 2 * math.sin(math.pi / (4 * delay + 2)))
    step = minimize_scalar(worst, bounds=edge, method="bounded", options={"xatol": 1e-12}).x
    paths = [delayed(size, delay, 20_000) for size in (step, step / 100)]
    return max(at for path in paths for at, x in enumerate(path) if abs(x) > 1e-4) + 1


def heavy_ball_cycle() -> float:
    before = now = 3.3
    for _ in range(3000):
        slope = 25 * now if now < 1 else now + 24 if now < 2 else 25 * now - 24
        before, now = now, now - slope / 9 + 4 / 9 * (now - before)
    return max(abs(now), abs(before))


def settled_curvature() -> float:
    u, v = 5.0, 0.05
    for _ in range(3000):
        u, v = u - 0.1 * (u * v - 1) * v, v - 0.1 * (u * v - 1) * u
    return u * u + v * v


def over_the_cliff() -> float:
    """Largest squared slope of a plateau of slope 0.001 that ends in a logistic drop, from 2.5 at a L = 0.3."""

    def slope(x: float) -> float:
        share = 1 / (1 + math.exp(-4 * x))
        return 1e-3 + 4 * share * (1 - share) + min(x + 2, 0.0)

    x, found = 2.5, 0.0
    for _ in range(6000):
        found, x = max(found, slope(x) ** 2), x - 0.3 / (1 + 16 * 0.0962251) * slope(x)
    return found


def last_above(delay: int) -> int:
    """Updates until |x| stays below a hundredth, a lambda = 1 / (2 delay)."""
    path = delayed(0.5 / delay, delay, 2000)
    return max(at for at, x in enumerate(path) if abs(x) > 0.01) + 1


def bits(share: float) -> float:
    """Of a vector of 32-bit entries over the share of them and the entropy of which they are."""
    return 32 / (32 * share - share * math.log2(share) - (1 - share) * math.log2(1 - share))


def rounded(digits: int) -> float:
    """Mean squared error of normal numbers rounded to binary digits: a twelfth of the squared step of each octave."""
    octaves = [(2.0**e, math.erf(2.0 ** (e + 0.5)) - math.erf(2.0 ** (e - 0.5))) for e in range(-40, 5)]
    return sum(chance * (size * 2.0 ** (1 - digits)) ** 2 / 12 for size, chance in octaves)


def proximal_limit() -> float:
    """Of curvatures and optima as the experiment has them: rounds of ten steps with a pull to their start."""
    from lockstep.learn.lab.experiments.local.local_bias import Settings

    given, x = Settings(), 0.0
    for _ in range(2000):
        ends = []
        for h, b in zip(given.curvatures, given.optima, strict=True):
            y = x
            for _ in range(10):
                y -= given.step_size * (h * (y - b) + given.proximal * (y - x))
            ends.append(y)
        x = sum(ends) / len(ends)
    return x


RIGHT: dict[str, Callable[[], float]] = {
    "delay-floor: floor of E x^2, delay 5": lambda: floor(1 / 12, 5),
    "delay-floor: floor with delay / without": lambda: floor(1 / 42, 20) / floor(1 / 42, 0),
    "delay-floor: a delay of 20 leaves (1 + tau)^2 times the noise": lambda: floor(1 / 42, 20) / floor(1 / 42, 0),
    "delay-iterations: a delay always costs in proportion, noise dominates":
        lambda: noisy_updates(32) / noisy_updates(0),
    "delay-iterations: no run shorter than tau^2 converges: updates with delay 50": lambda: last_above(50),
    "delay-iterations: updates to 0.0001 at the best step, delay 0": lambda: best_updates(0),
    "delay-iterations: updates grow like (1 + delay)^2": lambda: best_updates(32) / best_updates(0),
    "delay-iterations: R^2 of updates over 1 + delay, no noise":
        lambda: np.corrcoef(DELAYS, [best_updates(delay) for delay in DELAYS])[0, 1] ** 2,
    "nonconvex-delay: the bound holds at any step": lambda: delayed(0.5, 10, 200)[-1] ** 2,
    "nonconvex-delay: the bound holds for the last iterate, after 3975 steps on a plateau": over_the_cliff,
    "async-momentum: heavy ball tuned for quadratics converges on every strongly convex loss": heavy_ball_cycle,
    "tolerable-delay: late curvature stays above 2 / a, from 25, a = 0.1": settled_curvature,
    "local-identity: K = 2 diverges at a L = 0.217 like a delay of 14":
        lambda: (1 - 4 * math.sin(math.pi / 58)) ** 400,
    "local-bias: unequal local steps keep the objective": lambda: (0.9 - 0.9**100) / (1.1 - 0.9**100),
    "client-sampling: the fraction alone matters: half of 2 n over half of n": lambda: (1 / 79) / (1 / 39),
    "local-drift: the spread grows like sqrt(n)": lambda: (1 - 1 / 256) / (1 - 1 / 2),
    "local-period: K = 4 keeps the compute fraction, n from 8 to 512": lambda: 1 / (1 + 512 * 0.015 / 3.2),
    "learning-rate-scaling: the linear rule keeps the variance even for correlated examples":
        lambda: 0.32 * (0.95 / 16 + 0.05) / (2 - 0.32),
    "index-bits: top 1 % saves 100 times": lambda: bits(0.01),
    "gradient-variance: the unweighted mean has the variance of the global batch": lambda: (1 / 10 + 1 / 1000) / 4,
    "gradient-range: zero at scale 2^0": lambda: math.erf(2**-25 / 1e-4 / math.sqrt(2)),
    "compression-noise: relative error only adds to the variance": lambda: 0.16 / (1 - 0.64 - 0.12),
    "compression-noise: random-k, 4 ranks, a = 0.1": lambda: 0.01 / (1 - 0.81 - 0.0075),
    "compression-noise: additive error, a = 0.1": lambda: 0.01 / (1 - 0.81),
    "gradient-variance: variance, with replacement, 16 workers": lambda: 1 / 64,
    "gradient-variance: variance, one worker alone, 8 workers": lambda: 8 / 64,
    "aggregation-error: gap with feedback after 10 steps": lambda: (0.79 * 0.7**9) ** 2 / 2,
    "aggregation-error: opposing, Huber, error 0.3": lambda: 0.3 * 10_000 / 20_001**2,
    "loss-scaling: fp32: loss after 10 steps":
        lambda: sum(x * (1 - x) ** 20 for x in np.geomspace(0.1, 1, 200)) / sum(np.geomspace(0.1, 1, 200)),
    "norm-steps: no lower value, spectral, U V'": lambda: -(3**2 + 4**2 + 1 + 2**2 + 2 * 10) / 8,
    "async-momentum: factor per step, momentum 0.9, delay 1, a = 0.08": lambda: math.sqrt(0.98),
    "delay-stability: factor per step along negative curvature, delay 5":
        lambda: np.abs(np.roots([1, -1, 0, 0, 0, 0, -0.01])).max(),
    "gradient-range: overflow at scale 2^29": lambda: math.erfc(65_520 / 2**29 / 1e-4 / math.sqrt(2)),
    "hogwild: fraction of updates that collide with another, density 0.03": lambda: 1 - 0.97**15,
    "hogwild: largest step, dense": lambda: 2 * math.sin(math.pi / 62),
    "generalization-gap: gap of the exact fit to 400 examples": lambda: (50 / 400 + 50 / 349) / 2,
    "error-feedback: three ranks, dense: fraction left after 200 steps": lambda: (1 - 0.07 / 6) ** 200,
    "compression-stability: factor of one step, a = 0.5, 4 ranks": lambda: 1 - 1 + 0.25 * (1 + 9 / 4),
    "compression-time: efficiency 90 % after 10x compression": lambda: 0.7 / (0.7 + 0.03),
    "local-bias: limit of FedProx, K = 10": proximal_limit,
    "communication-bound: a bit per step, target 0.0001: loss": lambda: 2.0**-15,
    "sgd-bound: gap on huber, batch 8, a L = 0.3": lambda: oracles.huber_gap(0.3, 8, 300, 3.0, 11),
    "stale-descent: outside the radius the stale gradient points uphill":
        lambda: oracles.still_downhill((1.5, 2.0, 3.0)),
    "nonconvex-delay: mean squared gradient, delay 50": lambda: oracles.squared_slope(50, 600),
    "error-feedback: feedback divides the loss of a payload by 5": lambda: oracles.lost_with_memory(0.1, 100),
    "critical-batch: B_crit = kappa^2 / epsilon, whatever the noise: steps at B_crit / 8 with four times the noise, "
    "ratio": lambda: oracles.noisier_steps(4.0, 1 / 8),
    "compression-factors: bf16 rounding to nearest, formula": lambda: rounded(8),
    "compression-factors: bf16 stochastic rounding: twice that": lambda: 2 * rounded(8),
    "compression-factors: bf16 loses 1 % of a vector": lambda: rounded(8),
    "compression-factors: PowerSGD is unbiased: mean payload along the vector": lambda: oracles.along_power(20_000),
    "generalization-gap: no gap at full batch": lambda: oracles.unfinished_gap(50, 100, 300),
    "async-momentum: largest step, momentum 0.9, delay 10, over that without either: the published 380":
        lambda: oracles.largest_momentum_step(0) / oracles.largest_momentum_step(10),
    "implicit-bias-epochs: simplified Adam converges to SGD's solution: difference": oracles.epoch_adam,
    "delay-stability: largest stable a lambda tau over 1 - beta, maximum": lambda: 40 * math.sin(math.pi / 82),
    "compression-noise: quantization matters less at large batches": lambda: 3 * (1 + 2048 / 100),
    "compression-stability: descent without its a^2 term, a = 0.5":
        lambda: 2.5 / 2 * sum(x**2 for x in np.linspace(0.5, 1.5, 100)),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_recorded_right_values_match_independent_computations(name: str) -> None:
    checks, right = typed(name), RIGHT[name]()
    assert checks
    for check in checks:
        assert check.right.away(right) <= check.right.half_digit + 1e-9 * abs(right), (check.right, right)


class Shards:
    """The network on the digits by torch: 8 hidden tanh units, 500 samples, 60 batches of 64, descent at 0.25."""

    def __init__(self) -> None:
        from lockstep.learn.methods.data import digits

        pixels, classes = digits()
        self.x, self.y = torch.tensor(pixels[:500]), torch.tensor(np.asarray(classes[:500]), dtype=torch.long)
        draw = np.random.default_rng(0)
        first, second = draw.standard_normal((64, 8)) / 8, draw.standard_normal((8, 10)) / math.sqrt(8)
        self.start = [torch.tensor(part) for part in (first, np.zeros(8), second, np.zeros(10))]
        draw = np.random.default_rng(np.random.SeedSequence(0))
        self.batches = [draw.choice(500, 64, replace=False) for _ in range(60)]

    def gradient(self, weights: Gradients, places: np.ndarray, normed: bool = False) -> Gradients:
        x = self.x[places]
        if normed:
            x = (x - x.mean(0)) / torch.sqrt(x.var(0, unbiased=False) + 1e-5)
        own = [weight.clone().requires_grad_(True) for weight in weights]
        scores = torch.tanh(x @ own[0] + own[1]) @ own[2] + own[3]
        return list(torch.autograd.grad(torch.nn.functional.cross_entropy(scores, self.y[places]), own))

    def path(self, gradient: Callable[[Gradients, np.ndarray], Gradients]) -> torch.Tensor:
        weights, found = self.start, []
        for batch in self.batches:
            weights = [w - 0.25 * g for w, g in zip(weights, gradient(weights, batch), strict=True)]
            found.append(torch.cat([weight.flatten() for weight in weights]))
        return torch.stack(found)

    def small_steps(self, weights: Gradients, batch: np.ndarray) -> Gradients:
        moved = weights
        for part in np.split(batch, 8):
            moved = [w - 0.25 / 8 * g for w, g in zip(moved, self.gradient(moved, part), strict=True)]
        return [(old - new) / 0.25 for old, new in zip(weights, moved, strict=True)]


def total(parts: list[Gradients], share: float) -> Gradients:
    return [share * sum(column) for column in zip(*parts, strict=True)]  # type: ignore[misc]


@cache
def differences() -> dict[str, float]:
    """Largest differences of a parameter from the run on whole batches."""
    torch.set_num_threads(1)
    run = Shards()
    whole, normed = run.path(run.gradient), run.path(lambda w, b: run.gradient(w, b, True))
    ways = {
        "summed gradients": lambda w, b: total([run.gradient(w, part) for part in np.split(b, 8)], 1.0),
        "unequal shards, unweighted":
            lambda w, b: total([run.gradient(w, part) for part in np.split(b, [5, 13])], 1 / 3),
        "small steps one after another": run.small_steps,
    }  # fmt: skip
    found = {name: float((run.path(way) - whole).abs().max()) for name, way in ways.items()}
    per_shard = run.path(lambda w, b: total([run.gradient(w, part, True) for part in np.split(b, 8)], 1 / 8))
    return found | {"batch norm per shard": float((per_shard - normed).abs().max())}


@pytest.mark.parametrize(
    "way",
    ["summed gradients", "unequal shards, unweighted", "small steps one after another", "batch norm per shard"],
)
def test_sharded_runs_differ_as_automatic_differentiation_predicts(way: str) -> None:
    checks = typed(f"data-parallel: {way} = the large batch (sgd)")
    assert checks
    for check in checks:
        assert check.right.away(differences()[way]) <= check.right.half_digit
