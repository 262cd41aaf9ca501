"""Runs of compressed gradient descent on a quadratic whose ranks differ, to a target.

    f = mean of f_i,  f_i = x' H_i x / 2,  H_i = Q diag(l * u_i) Q'
Q: a random rotation; l: the spectrum, from 1 / condition to 1 in equal ratios; u_i: between 1/2 and 3/2, of mean 1
over the ranks. All ranks have the same minimum, so no gradient noise and no drift hides what compression does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.converge.statistics.draws import streams
from lockstep.methods.compression import Compressor, exchange

Array = npt.NDArray[Any]
DIVERGED = 1e3
"""Loss over that at the start at which a run has left."""
LARGEST_STEP = 1.9
"""Near the edge of plain descent, 2 over the largest curvature, which is about 1."""
MOST_HALVINGS = 10


@dataclass(frozen=True, slots=True)
class Quadratics:
    """One Hessian per rank, and where everybody starts."""

    hessians: Array
    start: Array

    @classmethod
    def draw(cls, elems: int, condition: float, ranks: int, seed: int) -> Quadratics:
        """Random rotation and shares, fixed spectrum; the start has the same loss in every direction."""
        (draw,) = streams(seed, 1)
        rotation = np.linalg.qr(draw.standard_normal((elems, elems)))[0]
        spectrum = np.geomspace(1 / condition, 1.0, elems)
        shares = draw.uniform(0.5, 1.5, (ranks, elems))
        shares /= shares.mean(axis=0)
        hessians = np.einsum("ik,nk,jk->nij", rotation, shares * spectrum, rotation)
        return cls(hessians, rotation @ (np.sign(draw.standard_normal(elems)) / np.sqrt(spectrum)))

    def loss(self, point: Array) -> float:
        """f at a point."""
        return float(point @ self.hessians.mean(axis=0) @ point / 2)


@dataclass(frozen=True, slots=True)
class Reached:
    """The steps a run took, or None if it did not arrive, and its loss on the way."""

    steps: int | None
    step_size: float
    losses: Array
    """Over that at the start, after 0, 1, ... steps."""


def descend(
    problem: Quadratics, made: Compressor, step_size: float, target: float, most_steps: int, seed: int
) -> Reached:
    """Compressed gradient descent until the loss falls to `target` of the start, grows 1000 times or time is up."""
    ranks = len(problem.hessians)
    point, mean_hessian = problem.start, problem.hessians.mean(axis=0)
    # What adds up may rest on a shared draw, so its ranks get equal generators.
    generators = [streams(seed, ranks)[0 if made.summable else rank] for rank in range(ranks)]
    states: Any = [made.start(point) for _ in range(ranks)]
    first = problem.loss(point)
    losses = [1.0]
    for _ in range(most_steps):
        found = exchange(made, list(problem.hessians @ point), states, generators)
        states, point = found.states, point - step_size * found.mean
        losses.append(float(point @ mean_hessian @ point) / 2 / first)
        if not target < losses[-1] < DIVERGED:
            break
    arrived = losses[-1] <= target
    return Reached(len(losses) - 1 if arrived else None, step_size, np.array(losses))


def best_run(problem: Quadratics, made: Compressor, target: float, most_steps: int, seed: int) -> Reached:
    """The run of fewest steps over step sizes 1.9, 1.9 / 2, 1.9 / 4, ... until two in a row are worse."""
    best = descend(problem, made, LARGEST_STEP, target, most_steps, seed)
    worse = 0
    for halvings in range(1, MOST_HALVINGS):
        tried = descend(problem, made, LARGEST_STEP * 2.0**-halvings, target, best.steps or most_steps, seed)
        if (tried.steps or math.inf) < (best.steps or math.inf):
            best, worse = tried, 0
        elif best.steps is not None:
            worse += 1
        if worse == 2:
            break
    return best
