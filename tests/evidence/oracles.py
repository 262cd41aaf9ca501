"""Right values of checks that no closed form gives, computed in another way than by the code that they judge.

Plain loops over events, exact sums over signs, integrals, and torch's automatic differentiation instead of the
gradients of the lab.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random

import numpy as np
import torch
from scipy.optimize import brentq, curve_fit, minimize_scalar
from scipy.signal import fftconvolve
from scipy.stats import norm, qmc


def synchronous_pace(workers: int, slow_frac: float, slow: float) -> float:
    """Seconds per update of workers in step: the expected largest of their times, over their number.

    Of k slow workers the slowest takes slow x (0.95 + 0.1 k / (k + 1)), as times are uniform within 5 %.
    """

    def largest(number: int) -> float:
        return 0.95 + 0.1 * number / (number + 1)

    law = [math.comb(workers, k) * slow_frac**k * (1 - slow_frac) ** (workers - k) for k in range(workers + 1)]
    return sum(p * (slow * largest(k) if k else largest(workers)) for k, p in enumerate(law)) / workers


def raced(
    gap: int, workers: int, slow_frac: float, slow: float, target: float, sizes: int, steps: int, draws: int
) -> tuple[float, float]:
    """(updates, seconds) to the target, means over `draws`, of workers at most `gap` steps apart, event by event.

    A worker that has done c steps begins the next when everybody has done c - gap. It reads what has been written by
    then, and writes when it ends.
    """
    chosen = [0.05 * (1.6 / 0.05) ** (k / (sizes - 1)) for k in range(sizes)]
    found = []
    for draw in range(draws):
        made = _events(gap, workers, steps, slow_frac, slow, random.Random(draw))
        updates = min(_updates(made, size, target) for size in chosen)
        found.append((updates, made[updates - 1][0]))
    return tuple(sum(column) / draws for column in zip(*found, strict=True))  # type: ignore[return-value]


def _events(
    gap: int, workers: int, steps: int, slow_frac: float, slow: float, draw: random.Random
) -> list[tuple[float, int]]:
    """(end, updates read) of every update, until a worker has no steps left."""
    done, made = [0] * workers, list[tuple[float, int]]()
    running = list[tuple[float, int, int]]()
    waiting = list(range(workers))
    now = 0.0
    while True:
        for worker in list(waiting):
            if done[worker] - min(done) <= gap:
                waiting.remove(worker)
                time_s = draw.uniform(0.95, 1.05) * (slow if draw.random() < slow_frac else 1.0)
                heapq.heappush(running, (now + time_s, worker, len(made)))
        now, worker, read = heapq.heappop(running)
        made.append((now, read))
        done[worker] += 1
        if done[worker] == steps:
            return made
        waiting.append(worker)


def _updates(made: list[tuple[float, int]], size: float, target: float) -> int:
    """Updates after which the loss of x^2 / 2 + y^2 / 60 stays below the target; all of them where it does not."""
    path = [(1.0, 1.0)]
    for _, read in made:
        (x, y), (old_x, old_y) = path[-1], path[read]
        path.append((x - size * old_x, y - size * old_y / 30))
        if abs(path[-1][0]) > 1e100:
            return len(made)
    goal = target * (0.5 + 1 / 60)
    late = [place for place, (x, y) in enumerate(path) if not x * x / 2 + y * y / 60 < goal]
    return min(late[-1] + 1, len(made))


class Network:
    """The small network on the digits, by torch: 16 hidden tanh units, 500 samples, squared or cross-entropy loss."""

    def __init__(self, loss: str) -> None:
        from lockstep.learn.methods.data import digits

        pixels, classes = digits()
        self.x, self.y = torch.tensor(pixels[:500]), torch.tensor(np.asarray(classes[:500]), dtype=torch.long)
        draw, scale = np.random.default_rng(0), 0.25 if loss == "squared" else 1.0
        first, second = draw.standard_normal((64, 16)) / 8, draw.standard_normal((16, 10)) / 4
        parts = [scale * first, np.zeros(16), scale * second, np.zeros(10)]
        self.weights = [torch.tensor(part, requires_grad=True) for part in parts]
        self.squared = loss == "squared"

    def loss(self) -> torch.Tensor:
        """Mean over the samples."""
        first, first_bias, second, second_bias = self.weights
        scores = torch.tanh(self.x @ first + first_bias) @ second + second_bias
        if self.squared:
            return ((scores - torch.nn.functional.one_hot(self.y, 10)) ** 2).sum(1).mean() / 2
        return torch.nn.functional.cross_entropy(scores, self.y)

    def train(self, step: float, steps: int) -> None:
        """Full-batch descent."""
        for _ in range(steps):
            gradients = torch.autograd.grad(self.loss(), self.weights)
            with torch.no_grad():
                for weight, gradient in zip(self.weights, gradients, strict=True):
                    weight -= step * gradient

    def curvature(self, rounds: int = 300) -> float:
        """Largest eigenvalue of the Hessian by power iteration, exact products."""
        gradients = torch.autograd.grad(self.loss(), self.weights, create_graph=True)
        vector = [torch.ones_like(weight) for weight in self.weights]
        value = 0.0
        for _ in range(rounds):
            length = math.sqrt(sum(float((part**2).sum()) for part in vector))
            vector = [part / length for part in vector]
            along = sum((gradient * part).sum() for gradient, part in zip(gradients, vector, strict=True))
            product = torch.autograd.grad(along, self.weights, retain_graph=True)
            value = sum(float((a * b).sum()) for a, b in zip(vector, product, strict=True))
            vector = list(product)
        return value


def huber_gap(step: float, batch: int, steps: int, start: float, first: int) -> float:
    """Expected loss of Huber's at the mean of the iterates in four directions, noise of +- 1 / sqrt(batch).

    An exact sum over all signs of the `first` steps, after which no path leaves the quadratic part again.
    """
    noise, kept, rest = batch**-0.5, 1 - step, steps - first
    linear = (1 - kept**rest) / step
    variance = noise**2 * sum((1 - kept**k) ** 2 for k in range(rest))
    total = 0.0
    for signs in itertools.product((-noise, noise), repeat=first):
        x, added = start, 0.0
        for one in signs:
            added, x = added + x, x - step * (min(x, 1.0) + one)
        assert abs(x) < 1
        total += (added + linear * x) ** 2 + variance
    return 4 / 2 * total / 2**first / steps**2


def ripples_slope(x: np.ndarray) -> np.ndarray:
    """Of x^2 / 2 + (2 / 9) (1 - cos 3 x), whose curvature is at most 3."""
    return x + 2 / 3 * np.sin(3 * x)


def still_downhill(radii: tuple[float, ...]) -> float:
    """Share of moves by a radius times |g| / 3 after which the old gradient points downhill, by Sobol points."""
    points = qmc.Sobol(8, seed=1).random_base2(17)
    old, move = 8 * points[:, :4] - 4, norm.ppf(points[:, 4:])
    g = ripples_slope(old)
    reach = np.linalg.norm(g, axis=1, keepdims=True) * move / np.linalg.norm(move, axis=1, keepdims=True) / 3
    return float(np.mean([(ripples_slope(old + radius * reach) * g).sum(1) >= 0 for radius in radii]))


def squared_slope(delay: int, steps: int) -> float:
    """Mean squared slope of delayed descent on ripples in four directions from 2, at a L + 2 (a L delay)^2 = 1.

    Pairs of runs with opposite noise, whose effect of first order cancels.
    """
    step = (math.sqrt(1 + 8 * delay**2) - 1) / (4 * delay**2 * 3)
    noise = np.random.default_rng(1).choice([-1.0, 1.0], (steps, 10_000))
    noise = np.concatenate([noise, -noise], axis=1)
    path, total = [np.full(noise.shape[1], 2.0)], 0.0
    for at in range(steps):
        total += float(np.mean(ripples_slope(path[at]) ** 2))
        path.append(path[at] - step * (ripples_slope(path[max(at - delay, 0)]) + noise[at]))
    return 4 * total / steps


def lost_with_memory(sent: float, payloads: int) -> float:
    """Mean share that a payload of the largest entries loses of a vector and what was not sent before.

    Of endlessly many normal entries: the density of an entry with its residual, payload after payload.
    """
    x = np.linspace(-12.0, 12.0, 9601)
    width = x[1] - x[0]
    fresh = norm.pdf(x)
    density, lost = fresh, 0.0
    for _ in range(payloads):
        beyond = 2 * np.cumsum(density[::-1])[::-1] * width - density * width
        limit = np.interp(-sent, -beyond[4800:], x[4800:])
        kept = density * np.clip((limit - np.abs(x)) / width + 0.5, 0, 1)
        lost += float((kept * x * x).sum() / (density * x * x).sum())
        density = fftconvolve(kept, fresh, "same") * width + (1 - kept.sum() * width) * fresh
    return lost / payloads


def noisier_steps(noise: float, share: float) -> float:
    """Steps with more noise over those before, at a share of the critical batch of the noisy quadratic.

    32 curvatures from 0.01 to 1, a hundredth of the start's loss; the rate by scipy's minimum of scipy's roots.
    """
    h = np.geomspace(0.01, 1, 32)

    def loss(time: float, rate: float, batch: float, noise: float) -> float:
        kept = ((1 - rate * h) ** 2) ** time
        return float(0.5 * np.sum(kept / 32 + (1 - kept) * rate * noise * h / (batch * (2 - rate * h))))

    def steps(rate: float, batch: float, noise: float) -> float:
        if loss(1e7, rate, batch, noise) >= 0.005:
            return 1e7
        return float(brentq(lambda time: loss(time, rate, batch, noise) - 0.005, 0, 1e7))

    def fewest(batch: float, noise: float = 1.0) -> float:
        rates = np.geomspace(1e-4, 1.99, 100)
        best = int(np.argmin([steps(rate, batch, noise) for rate in rates]))
        around = (rates[best - 1], rates[min(best + 1, 99)])
        found = minimize_scalar(lambda rate: steps(rate, batch, noise), bounds=around, method="bounded")
        return float(found.fun)

    twice = 2 * fewest(1e12)
    middle = 2.0 ** round(brentq(lambda power: fewest(2.0**power) - twice, 0, 20, xtol=0.01))
    batches = middle * 2.0 ** np.arange(-6, 7)
    (_, critical), _ = curve_fit(
        lambda batch, least, log: least + np.log1p(np.exp(log) / batch),
        batches, np.log([fewest(batch) for batch in batches]), p0=(4.0, np.log(middle)),
    )  # fmt: skip
    below = share * math.exp(critical)
    return fewest(below, noise) / fewest(below)


def along_power(elems: int) -> float:
    """Mean share of a normal matrix, nearly square, that one power iteration from a random start keeps."""
    rows = math.isqrt(elems)
    draw, kept = np.random.default_rng(3), []
    for _ in range(400):
        matrix = draw.standard_normal((rows, -(-elems // rows)))
        left = matrix @ draw.standard_normal(matrix.shape[1])
        kept.append(((matrix.T @ left) ** 2).sum() / (left @ left) / (matrix**2).sum())
    return float(np.mean(kept))


def unfinished_gap(dimension: int, examples: int, steps: int) -> float:
    """Expected gap of full-batch least squares from a random start of length 1, rate 1 / (d + 2), noise 1.

    Exact for given singular values of the data; these are drawn.
    """
    draw, gaps = np.random.default_rng(4), []
    for _ in range(400):
        curved = np.linalg.svd(draw.standard_normal((examples, dimension)), compute_uv=False) ** 2 / examples
        left = (1 - curved / (dimension + 2)) ** steps
        away = left**2 / dimension + (1 - left) ** 2 / (examples * curved)
        training = curved * left**2 / dimension + left**2 / examples
        gaps.append((away.sum() + 1 - training.sum() - (examples - dimension) / examples) / 2)
    return float(np.mean(gaps))


def largest_momentum_step(delay: int) -> float:
    """Of heavy ball 0.9 on x^2 / 2: where a root of its recursion leaves the unit circle."""

    def size(step: float) -> float:
        powers = np.zeros(max(delay + 2, 3))
        powers[:3] = 1.0, -1.9, 0.9
        powers[delay + 1] += step
        return float(np.abs(np.roots(powers)).max())

    return float(brentq(lambda step: size(step) - 1 - 1e-12, 1e-4, 4))


def epoch_adam() -> float:
    """Largest difference of the epoch-scaled descent from the least-norm solution, over its largest entry."""
    draw = np.random.default_rng(np.random.SeedSequence(0))
    x, y = draw.normal(size=(2, 5)) * np.geomspace(1, 0.2, 5), draw.normal(size=2)
    theta, base = [0.0] * 5, max(abs(y)) / min(sum(abs(row)) for row in x)
    for t in range(1, 4001):
        slopes = [[-2 * (b - sum(row * theta)) * one for one in row] for row, b in zip(x, y, strict=True)]
        for place, (first, second) in enumerate(zip(*slopes, strict=True)):
            theta[place] -= 0.2 * base / math.sqrt(t) * (first + second) / (abs(first) + abs(second))
    return float(max(abs(theta - np.linalg.pinv(x) @ y)) / max(map(abs, theta)))


def local_updates(period: int, step: float, runs: int) -> tuple[float, float]:
    """(steps, seconds) of the runs of exercise C.7, means: 8 workers, 20 axes, to 3 % of the first loss over the least.

    Gradients are noisy by +- 1/2, a step takes log-normal times of mean 50 ms and cv 0.2, an average 100 ms.
    """
    draw, u = np.random.default_rng(5), np.arange(8) / 3.5 - 1
    h = [np.outer(1 + 0.5 * u, 20.0 ** (axis / 19 - 1))[:, 0] for axis in range(20)]
    best = [float(one @ (0.5 * u) / one.sum()) for one in h]

    def loss(x: np.ndarray) -> np.ndarray:
        return sum(one.mean() * (x[:, axis] - at) ** 2 / 2 for axis, (one, at) in enumerate(zip(h, best, strict=True)))

    x, width = np.ones((runs, 20)), math.sqrt(math.log(1.04))
    first, now_s, steps, done = loss(x), np.zeros(runs), np.zeros(runs), np.zeros(runs, dtype=bool)
    while not done.all():
        mean, slowest = np.zeros_like(x), np.zeros(runs)
        for worker in range(8):
            own, own_s = x.copy(), np.zeros(runs)
            for _ in range(period):
                slope = np.stack([h[axis][worker] * (own[:, axis] - 0.5 * u[worker]) for axis in range(20)], axis=1)
                own -= step * (slope + draw.choice([-0.5, 0.5], x.shape))
                own_s += 0.05 * np.exp(width * draw.standard_normal(runs) - width**2 / 2)
            mean, slowest = mean + own / 8, np.maximum(slowest, own_s)
        x = mean
        now_s, steps = now_s + (slowest + 0.1) * ~done, steps + period * ~done
        done |= loss(x) <= 0.03 * first
    return float(steps.mean()), float(now_s.mean())
