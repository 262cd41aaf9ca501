"""How far runs drift apart that differ only in the order of their sums, over the steps of training.

    equal shards, or weights by size: data-parallel training is the large batch, up to rounding
    one strongly convex objective: the gap stays at a few roundings for ever (contraction eats them)
    a non-convex network at a large step: the gap grows from rounding by many orders of magnitude
    fp64 instead of fp32: it starts at 2^-53 instead of 2^-24 and takes longer
The same batch is cut for n ranks; gradients are averaged by a ring, whose order of additions depends on n. Refuted
beside it: that shards of unequal size may be averaged without weights, and that curves of n and of 1 rank are equal
to the pixel for ever.

Source: Li et al., "PyTorch Distributed", VLDB 2020 (equivalence of data parallelism); our runs.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from lockstep.base.records import dataclass, replace
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, watched, when
from lockstep.learn.lab.statistics import streams
from lockstep.simulate.collectives import get
from lockstep.simulate.program.executor import execute

QUESTION = "How far do runs that differ only in the order of their sums drift apart?"
SOURCE = "Li et al. 2020 (equivalence); IEEE 754-2019 (rounding)"

EXAMPLES, INPUTS = 64, 8
FEW = 64.0
"""Roundings that count as few."""
UNSTEADY = 2.0
"""Step size from which the network amplifies roundings."""
UNEQUAL = (4, 8)
"""Sizes of unequal shards; the rest is the last."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The network and its training."""

    hidden: int = setting(16, "Number of units of the hidden layer.", least=2, most=512)
    step_size: float = setting(
        4.0, "Step size of the network; the default is large enough to amplify rounding errors.", above=0, most=100
    )
    convex_step_size: float = setting(0.5, "Step size of the linear model with weight decay.", above=0, most=1)
    steps: int = setting(400, "Number of training steps.", least=50, most=100_000)
    ranks: tuple[int, ...] = setting(
        (2, 4, 8), "Numbers of ranks to compare with a single rank.", least=2, most=EXAMPLES
    )


@dataclass(frozen=True, slots=True)
class Problem:
    """Inputs, labels and a start, in one precision."""

    inputs: Array
    labels: Array
    start: Array
    hidden: int
    """0 for the linear model."""

    def gradient(self, weights: Array, rows: slice) -> Array:
        """Mean gradient over some examples."""
        inputs, labels = self.inputs[rows], self.labels[rows]
        if self.hidden:
            return _network_gradient(weights, inputs, labels, self.hidden)
        slope: Array = inputs.T @ (inputs @ weights - labels) / len(labels) + DECAY * weights
        return slope


DECAY = np.float32(0.1)
"""Weight decay of the linear model: it makes it strongly convex."""


def _network_gradient(weights: Array, inputs: Array, labels: Array, hidden: int) -> Array:
    """Of the squared error of tanh units and a tanh output: bounded, however large the step."""
    first, last = weights[:-hidden].reshape(INPUTS, hidden), weights[-hidden:]
    units = np.tanh(inputs @ first)
    output = np.tanh(units @ last)
    residual = (output - labels) * (1 - output**2) / len(labels)
    back = np.outer(residual, last) * (1 - units**2)
    return np.concatenate([(inputs.T @ back).ravel(), units.T @ residual])


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Gaps to the run on one rank, for both models and precisions."""
    gaps: dict[str, Array] = {}
    cases = [(kind, precision) for kind in ("linear", "network") for precision in ("fp32", "fp64")]
    for kind, precision in watched(cases, progress):
        gaps[f"{kind}, {precision}"] = _largest_gap(_problem(kind, precision, settings, seed), settings)
    x = np.arange(1, settings.steps + 1, dtype=float)
    return Findings(
        checks=(
            *_checks(gaps, settings),
            _most_of(gaps, settings, seed),
            *_shards(settings, seed),
            *_slopes(settings, seed),
        ),
        theory=(
            Law("gap of one rounding, fp32", 2.0**-24, "u", "IEEE 754-2019"),
            Law("contraction of the linear model, at least", 1 - settings.convex_step_size * float(DECAY),
                "1 - a mu", "strong convexity by weight decay"),
        ),
        rows=tuple({"run": name, "gap_after_10_steps": float(gap[9]), "largest_gap": float(gap.max())}
                   for name, gap in gaps.items()),
        curves=tuple(Curve(name, x, np.maximum(gap, 1e-18)) for name, gap in gaps.items()),
        picture=Picture("step", "largest_parameter_gap", log_y=True),
        conclusion=_conclusion(gaps),
        assumptions=("one batch of 64 examples for all steps; averages by a ring all-reduce",),
    )  # fmt: skip


def _loss(problem: Problem, weights: Array) -> float:
    """Half the mean squared error, with the weight decay of the linear model."""
    if not problem.hidden:
        error = problem.inputs @ weights - problem.labels
        return float((error**2).mean() + DECAY * (weights @ weights)) / 2
    first, last = np.split(weights, [INPUTS * problem.hidden])
    output = np.tanh(np.tanh(problem.inputs @ first.reshape(INPUTS, -1)) @ last)
    return float(((output - problem.labels) ** 2).mean()) / 2


def _slopes(settings: Settings, seed: int) -> list[Check]:
    """Gradients at the start beside differences of the loss, in fp64, along the gradient itself."""
    found = []
    for kind in ("linear", "network"):
        problem = _problem(kind, "fp64", settings, seed)
        gradient = problem.gradient(problem.start, slice(None))
        ahead, behind = (_loss(problem, problem.start + sign * 1e-5 * gradient) for sign in (1, -1))
        found.append(Check(f"{kind}: squared gradient beside a difference of the loss", (ahead - behind) / 2e-5,
                           float(gradient @ gradient), tolerance=1e-6 * float(gradient @ gradient),
                           holds=ALWAYS))  # fmt: skip
    return found


def _problem(kind: str, precision: str, settings: Settings, seed: int) -> Problem:
    """The same examples and start in both precisions, up to rounding."""
    (draw,) = streams(seed, 1)
    number = np.float32 if precision == "fp32" else np.float64
    hidden = settings.hidden if kind == "network" else 0
    inputs = draw.standard_normal((EXAMPLES, INPUTS))
    labels = np.sign(draw.standard_normal(EXAMPLES))
    start = draw.standard_normal(INPUTS * hidden + hidden if hidden else INPUTS)
    return Problem(inputs.astype(number), labels.astype(number), start.astype(number), hidden)


def _largest_gap(problem: Problem, settings: Settings) -> Array:
    """Largest difference of a parameter between one rank and several, after every step."""
    alone = _alone(problem, settings)
    gaps = [np.abs(_trained(problem, n, settings) - alone).max(axis=1) for n in settings.ranks]
    largest: Array = np.max(gaps, axis=0)
    return largest


def _most_of(gaps: dict[str, Array], settings: Settings, seed: int) -> Check:
    """One rank is no gap from itself, so with it among the numbers of ranks the largest gap is as it was."""
    more = replace(settings, ranks=(1, *settings.ranks))
    found = _largest_gap(_problem("network", "fp32", more, seed), more)
    return Check("network, fp32: largest gap with one rank among those compared, less that without", 0.0,
                 float(np.abs(found - gaps["network, fp32"]).max()), holds=ALWAYS)  # fmt: skip


def _alone(problem: Problem, settings: Settings) -> Array:
    """Parameters of one rank after every step, in float64."""
    return _trained(problem, 1, settings)


def _trained(problem: Problem, ranks: int, settings: Settings) -> Array:
    """Parameters after every step, in float64."""
    weights, path = problem.start, []
    edges = np.linspace(0, EXAMPLES, ranks + 1).astype(int)
    step = weights.dtype.type(settings.step_size if problem.hidden else settings.convex_step_size)
    program = get("all-reduce", "ring").program(ranks, weights.nbytes, element_B=float(weights.itemsize))
    for _ in range(settings.steps):
        shares = [
            problem.gradient(weights, slice(low, high)) * weights.dtype.type((high - low) / EXAMPLES)
            for low, high in pairwise(edges)
        ]
        total = execute(program, {"data": shares})["data"][0]
        weights = weights - step * total
        path.append(weights.astype(np.float64))
    return np.array(path)


def _checks(gaps: dict[str, Array], settings: Settings) -> list[Check]:
    """The linear model stays at roundings, the network leaves them, later in more bits."""
    roundoffs = {name: gap / np.finfo(f"float{name[-2:]}").epsneg for name, gap in gaps.items()}
    late = {name: float(last) for name, (*_, last) in roundoffs.items()}
    network = roundoffs["network, fp32"]
    first, most = float(network[0]), float(network.max())
    left = [int(np.argmax(gaps[f"network, {precision}"] > 1e-4)) for precision in ("fp32", "fp64")]
    return [
        Check("linear, fp32: late gap, in unit roundoffs", FEW, late["linear, fp32"], relation="at most",
              holds=ALWAYS),
        Check("linear, fp64: late gap, in unit roundoffs", FEW, late["linear, fp64"], relation="at most",
              holds=ALWAYS),
        Check("network, fp32: first gap, in unit roundoffs", FEW * max(1.0, settings.step_size), first,
              relation="at most", holds=ALWAYS),
        Check("network, fp32 departs from the run on one "
              "rank before fp64", 1.0, float(left[0] < left[1] or left[1] == 0),
              holds=ALWAYS),
        Check("curves of n ranks stay within a few unit roundoffs of those of one rank", FEW, most, relation="at most",
              false_law=True, holds=when(settings.step_size >= UNSTEADY, f"a step_size of at least {UNSTEADY:g}")),
    ]  # fmt: skip


def _shards(settings: Settings, seed: int) -> list[Check]:
    """Unequal shards with and without weights, on the linear model in fp64."""
    problem = _problem("linear", "fp64", settings, seed)
    edges = (0, *np.cumsum(UNEQUAL).tolist(), EXAMPLES)
    rows = [slice(low, high) for low, high in pairwise(edges)]
    paths = {}
    ways = {
        "weighted": [(len(problem.labels[part]) / EXAMPLES, part) for part in rows],
        "plain": [(1 / len(rows), part) for part in rows],
        "one": [(1.0, slice(None))],
    }
    for name, shares in ways.items():
        weights = problem.start
        for _ in range(settings.steps):
            weights = weights - settings.convex_step_size * sum(
                share * problem.gradient(weights, part) for share, part in shares
            )
        paths[name] = weights
    *_, alone = _alone(problem, settings)
    weighted, plain, one = (float(np.abs(weights - alone).max()) for weights in paths.values())
    forgotten = math.exp(-settings.convex_step_size * settings.steps * float(DECAY))
    far = when(settings.convex_step_size * settings.steps >= 1, "convex_step_size x steps of at least 1")
    return [
        Check("unequal shards, weighted by size", 0.0, weighted, tolerance=1e-12, holds=ALWAYS),
        Check("one rank beside descent on all examples", 0.0, one, holds=ALWAYS),
        Check(
            "unequal shards, not weighted: distance of their minimum",
            _far_minimum(problem, rows),
            plain,
            tolerance=1e-12 + 10 * forgotten,
            holds=ALWAYS,
        ),
        Check("unequal shards may be averaged without weights", 0.0, plain, tolerance=1e-4, false_law=True, holds=far),
    ]


def _far_minimum(problem: Problem, rows: list[slice]) -> float:
    """Largest distance of a parameter between the minima with equal weights of shards and of examples, solved."""
    minima = []
    for weights in ([1 / len(problem.labels[part]) / len(rows) for part in rows], [1 / EXAMPLES] * len(rows)):
        each = np.concatenate(
            [np.full(len(problem.labels[part]), one) for part, one in zip(rows, weights, strict=True)]
        )
        curvature = problem.inputs.T * each @ problem.inputs + float(DECAY) * np.eye(INPUTS)
        minima.append(np.linalg.solve(curvature, problem.inputs.T * each @ problem.labels))
    return float(np.abs(minima[0] - minima[1]).max())


def _conclusion(gaps: dict[str, Array]) -> str:
    convex, network = (float(gaps[f"{kind}, fp32"].max()) for kind in ("linear", "network"))
    return (
        f"the order of sums changes a parameter of the convex run by at most {convex:.2g} and of this network by "
        f"{network:.2g}"
    )
