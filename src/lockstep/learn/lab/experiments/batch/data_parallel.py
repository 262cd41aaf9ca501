"""Data parallel and gradient accumulation are the run on one device: when, how exactly, and what breaks them.

    mean over n equal shards of shard gradients = gradient of the batch = mean over K accumulated micro-batches
Any optimizer that is a function of the gradients (momentum, Adam) follows the same path, to rounding; bit for bit where
every sum is exact, which small whole numbers and powers of two as rates make happen. Shards of different sizes need
weights B_i / B. What couples examples breaks it: statistics per shard (batch norm), clipping before accumulation. What
else is not the same: summed gradients, K small steps instead of one large.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, watched
from lockstep.learn.lab.objectives import Perceptron, digits_perceptron
from lockstep.learn.methods.optimizers import Optimizer, optimizer, step

Gradient = Callable[[Array, Array], Array]
"""(parameters, places of the batch's samples) -> gradient."""

QUESTION = "Does data parallelism or gradient accumulation take the same step as one device with the large batch?"
SOURCE = "linearity of the mean; Goyal et al. 2017, section 2.2 (batch norm per worker)"
EXACT, APART = 1e-12, 1e-4
BASE_RATES = {"sgd": 0.25, "momentum": 0.05, "adam": 0.01}
CLIP = 0.5


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked."""

    workers: int = setting(8, "Number of equal shards, and of accumulated micro-batches.", least=2, most=64)
    batch: int = setting(64, "Global batch size, a multiple of the workers.", least=4, most=500)
    steps: int = setting(60, "Steps of every run.", least=5, most=2000)
    hidden: int = setting(8, "Number of hidden units of the network on digits.", least=1, most=256)


@dataclass(frozen=True, slots=True)
class Way:
    """A gradient computed in parts, the gradient of the whole batch that it should be, and whether it is."""

    name: str
    parts: Gradient
    whole: Gradient
    same: bool
    optimizers: tuple[str, ...] = tuple(BASE_RATES)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Largest differences of a parameter between ways to compute the same step."""
    if settings.batch % settings.workers:
        raise BadInput(f"must be a multiple of the {settings.workers} workers", "--set batch")
    network = digits_perceptron(settings.hidden)
    batches = _batches(settings, seed, len(network.inputs))
    start = network.start(seed)
    rows, checks, curves = [], [], []
    ways = _ways(network, settings.workers)
    for way in watched(ways, progress):
        for name in way.optimizers:
            paths = [_path(one, optimizer(name), start, batches, BASE_RATES[name]) for one in (way.parts, way.whole)]
            apart = np.abs(paths[0] - paths[1]).max(axis=1)
            rows.append({"way": way.name, "optimizer": name, "largest_difference": float(apart.max())})
            checks.append(Check(f"{way.name} = the large batch ({name})", 0.0, float(apart.max()),
                                tolerance=EXACT if way.same else APART, false_law=not way.same,
                                holds=ALWAYS))  # fmt: skip
            if name == "sgd":
                curves.append(_curve(way.name, apart))
    checks += [*_bitwise(), _single_precision(network, batches, start, settings.workers)]
    checks += [*_parts(network, batches, start), _one_by_one(network, batches, start, settings.workers)]
    return Findings(
        checks=tuple(checks),
        theory=(Law("largest_difference", 0.0, "sum_i (B_i / B) g_i = g", SOURCE),),
        rows=tuple(rows),
        curves=tuple(curves),
        picture=Picture("step", "largest_difference", log_y=True),
        conclusion="Shards and accumulated micro-batches match the large batch up to rounding under every optimizer;"
        " unweighted shards, summed gradients, small steps, per-shard batch norm and clipping before "
        "accumulation do not",
        assumptions=("fp64, except for one check in fp32", "the same samples in every batch"),
    )


def _batches(settings: Settings, seed: int, samples: int) -> list[Array]:
    generator = np.random.default_rng(np.random.SeedSequence(seed))
    return [generator.integers(samples, size=settings.batch) for _ in range(settings.steps)]


def _ways(network: Perceptron, workers: int) -> tuple[Way, ...]:
    """All of them, each beside the whole batch."""

    def whole(w: Array, batch: Array) -> Array:
        return network.part(batch).gradient(w)

    def each(w: Array, batch: Array, gradient: Gradient = whole) -> Array:
        return np.array([gradient(w, shard) for shard in np.split(batch, workers)])

    def accumulated(w: Array, batch: Array) -> Array:
        total = np.zeros_like(w)
        for micro_batch in np.split(batch, workers):
            total += whole(w, micro_batch) / workers
        return total

    def unequal(w: Array, batch: Array, weighted: bool) -> Array:
        first, *others = batch
        shards = [np.array([first]), np.array(others)]
        sizes = [len(shard) for shard in shards] if weighted else None
        return np.asarray(np.average([whole(w, shard) for shard in shards], axis=0, weights=sizes))

    def normalised(w: Array, batch: Array) -> Array:
        return _normalised(network, batch).gradient(w)

    def clipped(w: Array, batch: Array) -> Array:
        return _clipped(whole(w, batch))

    def small_steps(w: Array, batch: Array) -> Array:
        rate, moved = BASE_RATES["sgd"], w
        for micro_batch in np.split(batch, workers):
            moved = moved - rate / workers * whole(moved, micro_batch)
        return (w - moved) / rate

    return (
        Way("equal shards", lambda w, batch: each(w, batch).mean(axis=0), whole, True),
        Way("accumulation", accumulated, whole, True),
        Way("unequal shards, weighted", lambda w, batch: unequal(w, batch, True), whole, True),
        Way("unequal shards, unweighted", lambda w, batch: unequal(w, batch, False), whole, False),
        Way("summed gradients", lambda w, batch: each(w, batch).sum(axis=0), whole, False, ("sgd", "momentum")),
        Way("small steps one after another", small_steps, whole, False, ("sgd",)),
        Way("batch norm per shard", lambda w, batch: each(w, batch, normalised).mean(axis=0), normalised, False),
        Way("clipping before accumulation", lambda w, batch: each(w, batch, clipped).mean(axis=0), clipped, False),
    )


def _normalised(network: Perceptron, places: Array) -> Perceptron:
    """The network on inputs with mean 0 and variance 1 within the shard: batch norm before the first layer."""
    inputs = network.inputs[places]
    spread = np.sqrt(inputs.var(axis=0) + 1e-5)
    return Perceptron((inputs - inputs.mean(axis=0)) / spread, network.classes[places], 10, network.hidden)


def _clipped(gradient: Array) -> Array:
    return np.asarray(gradient * min(1.0, CLIP / float(np.sqrt(gradient @ gradient))))


def _path(gradient: Gradient, method: Optimizer, start: Array, batches: Sequence[Array], rate: float) -> Array:
    """Parameters after every step, shape (steps, parameters)."""
    w, path = start, []
    state = method.start((w,))
    for batch in batches:
        (w,), state = step(method, (w,), (gradient(w, batch),), state, rate)
        path.append(w)
    return np.array(path)


def _parts(network: Perceptron, batches: list[Array], start: Array) -> list[Check]:
    """What batch norm and clipping do to inputs and to a gradient."""
    first, *_ = batches
    inputs, gradient = _normalised(network, first).inputs, network.gradient(start)
    spread = network.inputs[first].var(axis=0).max()
    unit = gradient / float(np.linalg.norm(gradient))
    return [
        Check("largest mean of an input after batch norm", 0.0, float(np.abs(inputs.mean(axis=0)).max()),
              tolerance=1e-9, holds=ALWAYS),
        Check("largest variance of an input after batch norm", float(spread / (spread + 1e-5)),
              float(inputs.var(axis=0).max()), tolerance=1e-9, holds=ALWAYS),
        *(Check(f"length of a gradient of {length:g} after clipping to {CLIP:g}", min(length, CLIP),
                float(np.linalg.norm(_clipped(length * unit))), tolerance=1e-12, holds=ALWAYS)
          for length in (CLIP / 10, 10 * CLIP)),
    ]  # fmt: skip


def _one_by_one(network: Perceptron, batches: list[Array], start: Array, workers: int) -> Check:
    """Small steps one after another are those of an optimizer at the rate over the workers."""
    (way,) = (one for one in _ways(network, workers) if one.parts.__name__ == "small_steps")
    first, *_ = batches
    rate = BASE_RATES["sgd"]
    (once,) = _path(way.parts, optimizer("sgd"), start, [first], rate)
    *_, small = _path(way.whole, optimizer("sgd"), start, np.split(first, workers), rate / workers)
    return Check("small steps = steps at the rate over the workers", 0.0, float(np.abs(once - small).max()),
                 tolerance=EXACT, holds=ALWAYS)  # fmt: skip


def _bitwise() -> list[Check]:
    """Squares of sums of small whole numbers, at a rate of 1: every sum is exact, in any order."""
    generator = np.random.default_rng(0)
    inputs = np.rint(generator.standard_normal((64, 4)))

    def whole(w: Array, places: Array) -> Array:
        return np.asarray(inputs[places] @ w @ inputs[places])

    def accumulated(w: Array, places: Array) -> Array:
        total = np.zeros(4)
        for micro_batch in np.split(places, 8):
            total += whole(w, micro_batch)
        return total

    batches = [generator.permutation(64) for _ in range(3)]
    checks = []
    for method in (optimizer("sgd"), optimizer("momentum", beta=0.5)):
        at_once, in_parts = (_path(one, method, np.ones(4), batches, 1.0) for one in (whole, accumulated))
        differing = float((at_once != in_parts).sum())
        checks.append(Check(f"accumulation where sums are exact ({method.name}): parameters that "
                            "differ", 0.0, differing,
                            holds=example("least squares on 64 examples, 8 micro-batches")))  # fmt: skip
    return checks


def _single_precision(network: Perceptron, batches: list[Array], start: Array, workers: int) -> Check:
    """In single precision shards are apart by rounding only: within 1e-5 after 60 steps."""
    single = Perceptron(network.inputs.astype(np.float32), network.classes, 10, network.hidden)
    way, first = _ways(single, workers)[0], start.astype(np.float32)
    paths = [_path(one, optimizer("sgd"), first, batches[:60], BASE_RATES["sgd"]) for one in (way.parts, way.whole)]
    return Check("equal shards in fp32 (sgd)", 0.0, float(np.abs(paths[0] - paths[1]).max()),
                 tolerance=1e-5, holds=ALWAYS)  # fmt: skip


def _curve(way: str, apart: Array) -> Curve:
    """Differences above zero, which a logarithmic axis can show."""
    seen = np.flatnonzero(apart > 0)
    return Curve(way, seen + 1.0, apart[seen])
