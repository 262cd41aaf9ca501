"""Right values of checks that no closed form gives, computed in another way than by the code that they judge.

Plain loops over events, and torch's automatic differentiation instead of the gradients of the lab.
"""

from __future__ import annotations

import heapq
import math
import random

import numpy as np
import torch


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
        from lockstep.methods.data import digits

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
