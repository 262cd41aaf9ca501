"""What figures draw of runs that learn: losses, scales and steps on the way, as rows of x and y."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.learn.lab.descent.delayed import descend, follow
from lockstep.learn.lab.descent.updates import Updates, asynchronous, worker_times_s
from lockstep.learn.lab.descent.workers import best_run
from lockstep.learn.lab.experiments.compression.compression_time import Priced, Settings, label, priced_runs
from lockstep.learn.lab.laws import best_step
from lockstep.learn.lab.objectives.workers import rotated_workers
from lockstep.learn.methods.compression import Compressor, ErrorFeedback, Half, Qsgd, TopK, Uniform
from lockstep.learn.methods.loss_scaling import LossScale, clip_by_norm, unscaled
from lockstep.learn.methods.number_format import number_format
from lockstep.learn.methods.staleness import cut_off, exponential, inverse
from lockstep.simulate.play import LogNormal

LEAST = 1e-12
"""Losses below it are drawn there."""


def delayed_loss(delay: int, condition: float, steps: int, step: float = 0.0, settled: bool = False) -> Array:
    """Loss over the first after every update, at the best step for that delay or at `step` over the curvature.

    `settled`: the largest from there on, without the ups and downs of a step near the edge.
    """
    size = step or best_step(delay, condition)[0]
    made = descend(np.array([1.0, 1 / condition]), np.ones((1, 2)), size, delay=delay, steps=steps)
    losses = np.maximum(made.losses[:, 0] / made.losses[0, 0], LEAST)
    if settled:
        losses = np.maximum.accumulate(losses[::-1])[::-1]
    last = int(np.argmax(losses <= LEAST)) if settled and losses[-1] <= LEAST else steps
    return np.stack([made.steps, losses])[:, : last + 1]


@cache
def _priced() -> dict[str, Priced]:
    return {label(one.made): one for one in priced_runs(Settings())}


def compressed_loss(name: str, keep: float, seconds: bool) -> Array:
    """Loss over the first by step or by second, at the best step size of a compressor of `compression-time`."""
    one = _priced()[f"{name} keep_frac={keep:g}" if keep else name]
    count = np.arange(len(one.run.losses), dtype=float)
    return np.stack([count * one.here_s(Settings()) if seconds else count, one.run.losses])


COMPRESSORS: dict[str, Callable[[float], Compressor]] = {
    "top-k": lambda keep: ErrorFeedback(TopK(keep)),
    "top-k-alone": TopK,
    "uniform": lambda bits: Uniform(int(bits)) if bits <= 8 else Half(),
    "qsgd": lambda bits: Qsgd(2 ** int(bits - 1) - 1),
}
"""By name, from the share that is kept or the bits of an entry."""


@cache
def compressed_steps(name: str, detail: float, condition: float, target: float, most: int) -> float:
    """Steps of 4 workers to a share `target` of the loss, at the best step size; `most` where it is not reached."""
    problem, start = rotated_workers(4, 100, condition, 0)
    return float(best_run(problem, start, COMPRESSORS[name](detail), target, most, 0).steps or most)


def scale_path(what: str, start_power: int, interval: int, steps: int, first: float, last: float) -> Array:
    """Loss scale of fp16, or steps aborted so far, as gradients change from one size to another in equal ratios."""
    half, scale, skipped, found = number_format("fp16"), LossScale(2.0**start_power, interval=interval), 0, []
    for gradient in np.geomspace(first, last, steps):
        found.append(scale.scale if what == "scale" else float(skipped))
        finite = bool(np.isfinite(half.rounded(scale.scale * gradient)))
        skipped += not finite
        scale = scale.after(finite)
    return np.stack([np.arange(float(steps)), found])


def aborted_frac(interval: int) -> float:
    """Share of steps that dynamic scaling aborts, gradients of steady size, in 5 rounds of its interval."""
    steps = 5 * (interval + 1)
    _, aborted = scale_path("aborted", 29, interval, steps + 1, 1e-4, 1e-4)
    return float(aborted[-1]) / steps


def clipped_norm(scale: float, first: bool) -> float:
    """Norm of a step of 100 equal gradients of 1 clipped to 1, before or after it is unscaled."""
    scaled = [np.full(100, scale)]
    if first:
        return float(np.linalg.norm(unscaled(clip_by_norm(scaled, 1.0), scale)[0]))
    return float(np.linalg.norm(clip_by_norm(unscaled(scaled, scale), 1.0)[0]))


WEIGHTS: dict[str, Callable[[Array], Array]] = {
    "none": np.ones_like, "inverse": inverse, "exponential": lambda age: exponential(age, 0.1),
    "cut-off": lambda age: cut_off(age, 10),
}  # fmt: skip
"""Of a gradient, by its age."""


@cache
def _mixed(slow: float, updates: int, seed: int) -> Updates:
    """Updates of 4 workers, one of them slower."""
    slowdown = np.array([1.0, 1.0, 1.0, slow])
    made = asynchronous(worker_times_s(LogNormal(1.0, 0.1), slowdown, updates, np.random.default_rng(seed)))
    return Updates(made.end_s[:updates], made.worker[:updates], made.read[:updates], updates)


def weighted_loss(weight: str, step: float, slow: float, updates: int, momentum: float = 0.0, seed: int = 0) -> Array:
    """Loss over the first of 4 workers, one of them slower, on curvatures from 0.1 to 1; mean over 10 updates."""
    made, curvatures = _mixed(slow, updates, seed), np.geomspace(0.1, 1.0, 5)
    sizes = step * WEIGHTS[weight](made.delay.astype(float))
    found = follow(made.read, lambda at: at * curvatures, lambda at: at**2 @ curvatures, np.ones((1, 5)), sizes,
                   momentum=momentum)  # fmt: skip
    losses = np.clip((found.losses[:, 0] / found.losses[0, 0])[: updates // 10 * 10], LEAST, 1e6).reshape(-1, 10)
    return np.stack([np.arange(5.0, updates, 10), losses.mean(axis=1)])


def ages(slow: float, updates: int, most: int, seed: int = 0) -> Array:
    """Share of the updates by the age of their gradient."""
    delay = _mixed(slow, updates, seed).delay
    return np.stack([np.arange(most + 1.0), np.bincount(np.minimum(delay, most), minlength=most + 1) / len(delay)])
