"""`calibrate`: how fast a user's own software and links are, from a few of their steps; larger sizes follow.

Unknown are a pace p (kernels and host take p times as long as predicted), what attention, elementwise kernels and the
host take beside that, and for each level of the network the share r of the wire rate that large messages reach. Their
logarithms x have normal laws beforehand: the first four around 0 with the spread of programs left out, r around what is
assumed with the spread of its range. Steps y = ln t differ from their predictions f(x) by noise. The likeliest x is
found by Gauss-Newton,

    A = J'J / noise^2 + diag(1 / sigma^2),    dx = A^-1 (J'(y - f(x)) / noise^2 - (x - x0) / sigma^2)

with J the slopes of f, and A^-1 is the covariance of what is then known. One step tells of the pace; kinds of kernels
and links are told apart from it by steps that spend more on them than others do.

Source: Tarantola 2005, "Inverse Problem Theory" (SIAM), section 3.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Floats
from lockstep.base.types.plain import Json, picked, plain
from lockstep.check.validation.cases.study import Study
from lockstep.decide.planner.estimate import estimate
from lockstep.describe.hardware import Cluster
from lockstep.describe.hardware import cluster as find_cluster
from lockstep.describe.hardware.schema import FactorEntry, PaceEntry
from lockstep.describe.hardware.source import Source
from lockstep.price.layout import Job, Layout, check
from lockstep.price.step import price_step

PACE_SIGMA = 0.15
"""Of ln(measured / predicted) over programs that nothing was fitted to, without those of one row."""
KINDS = {"attention": 0.2, "norms, elementwise": 0.3, "host": 0.2}
"""What may take longer than the pace says, and the assumed spread of the logarithm: of elementwise kernels less
than the 0.4 by which libraries' factors differ (`Stack.elementwise_factor`)."""
KNOWN_SIGMA = 0.05
"""Of ln(share of the wire) of a link that was measured or fitted."""
ENDS_SIGMAS = 3.29
"""Sigmas between the ends of a range that holds nine of ten links."""
NOISE = 0.04
"""Of a measured step, and of how the model goes from one layout to another."""
LEFT_FRAC = 0.08
"""Standard deviation with which nine of ten larger sizes lie inside their interval (`calibrated.py`)."""
STEPS = ("step_time_s", "tokens_per_s", "tokens_per_s_per_gpu", "mfu_frac", "hfu_frac", "model_flops_per_gpu_per_s")
"""Quantities of a case that give the seconds of a step."""
ROUNDS = 12
ENOUGH = 1e-4
"""Rounds end when no logarithm moves by more: a hundredth of a percent."""
PRODUCTS = "matrix products"
TELLS = 0.02
"""A step tells of an unknown when it changes by this share of the unknown's change."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A step that was measured."""

    name: str
    job: Job
    layout: Layout
    seconds: float


@dataclass(frozen=True, slots=True)
class Factor:
    """What one unknown came out as."""

    what: str
    value: float
    ci95: tuple[float, float]
    rows: int
    """Steps that tell of it."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True)
class Error:
    """A measured step beside a prediction."""

    name: str
    devices: int
    measured_s: float
    predicted_s: float

    @property
    def error_frac(self) -> float:
        """Predicted over measured, minus 1."""
        return self.predicted_s / self.measured_s - 1

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "name devices measured_s predicted_s error_frac")


@dataclass(frozen=True, slots=True)
class Calibration:
    """A cluster as its own steps show it."""

    cluster: Cluster
    """With the links that steps tell of as they came out; its device still predicts as before."""
    pace: float
    """Of matrix products, and of what has no factor of its own."""
    kinds: tuple[float, ...]
    """How many times as long as predicted attention, elementwise kernels and the host take."""
    error_frac: float
    """To expect of other step times on it."""
    factors: tuple[Factor, ...]
    errors_before: tuple[Error, ...]
    errors_after: tuple[Error, ...]

    def entry(self, source: str, date: str) -> PaceEntry:
        """How slow kernels and host are, as a cluster's file says it."""
        pace, (attention, stream, host) = round(self.pace, 4), (round(one, 4) for one in self.kinds)
        matmul, attends, streams = (FactorEntry(factor=one) for one in (pace, attention, stream))
        return PaceEntry(
            factor=host,
            error=round(self.error_frac, 4),
            matmul=matmul,
            attention=attends,
            stream=streams,
            optimizer=matmul,
            source=source,
            date=date,
        )

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            **picked(self, "pace error_frac"),
            **{name: plain(getattr(self, name)) for name in ("factors", "errors_before", "errors_after")},
        }


def measured_steps(base: Cluster, asked: Study) -> Iterator[Measured]:
    """The measured steps of a case, a rate turned into seconds. Raises BadInput for another device or open layouts."""
    device = find_cluster(asked.cluster).device.name
    if device != base.device.name:
        raise BadInput(f"{asked.name} ran on {device}, the cluster has {base.device.name}")
    for stretch in asked.stretches:
        rows = [row for row in asked.published if row.stretch == stretch.name and row.quantity in STEPS]
        if not rows:
            continue
        if not stretch.layout or stretch.chosen:
            raise BadInput(f"{asked.name}: the layout of {stretch.name!r} must be known completely")
        job, layout = Job(asked.model, stretch.recipe, stretch.devices), Layout(**stretch.layout)
        found, row = estimate(job, base.resized(stretch.devices), layout), rows[0]
        times = row.quantity == "step_time_s"
        seconds = row.value if times else found.step_time_s * getattr(found, row.quantity) / row.value
        name = asked.name if len(asked.stretches) == 1 else f"{asked.name} {stretch.name}"
        yield Measured(name, job, layout, seconds)


def changed(base: Cluster, paces: Sequence[float], shares: Sequence[float]) -> Cluster:
    """The cluster with products, attention, elementwise kernels and host so many times as slow, and links at these
    shares of their wire.
    """
    products, attention, stream, host = paces
    levels = tuple(
        replace(level, link=level.link.reaching(share)) for level, share in zip(base.levels, shares, strict=True)
    )
    curve = base.device.efficiency.slowed(host, products, attention, stream, products)
    return replace(base, device=replace(base.device, efficiency=curve), levels=levels)


def _paces(x: Floats) -> Floats:
    """Of products, attention, elementwise kernels and host: of the three as the first says, and beside it."""
    found: Floats = np.exp(x[0] + np.concatenate([[0.0], x[1 : 1 + len(KINDS)]]))
    return found


def calibrate(base: Cluster, steps: Sequence[Measured]) -> Calibration:
    """What the steps say of `base`, of any size. Raises BadInput for a layout that breaks a rule, or no step."""
    if not steps:
        raise BadInput("no measured step of a known layout; give step_time_s, tokens_per_s or mfu_frac of a stretch")
    for step in steps:
        check(step.layout, step.job)
    before, sigma, most = _beforehand(base)
    measured, x = np.log([step.seconds for step in steps]), before.copy()
    first = found = _log_s(base, steps, x)
    for _ in range(ROUNDS):
        slopes = _slopes(base, steps, x, found)
        weights = slopes.T @ slopes / NOISE**2 + np.diag(1 / sigma**2)
        pull = slopes.T @ (measured - found) / NOISE**2 - (x - before) / sigma**2
        last, x = x, np.minimum(x + np.linalg.solve(weights, pull), most)
        found = _log_s(base, steps, x)
        if np.abs(x - last).max() < ENOUGH:
            break
    slopes = _slopes(base, steps, x, found)
    covariance = np.asarray(np.linalg.inv(slopes.T @ slopes / NOISE**2 + np.diag(1 / sigma**2)), dtype=np.float64)
    factors = _factors(base, x, covariance, slopes)
    paces = _paces(x).tolist()
    left = math.sqrt(float(np.mean((measured - found) ** 2)))
    return Calibration(
        cluster=_with_links(base, factors),
        pace=paces[0],
        kinds=tuple(paces[1:]),
        error_frac=max(LEFT_FRAC, left),
        factors=tuple(factors),
        errors_before=tuple(_errors(steps, first)),
        errors_after=tuple(_errors(steps, found)),
    )


def _beforehand(base: Cluster) -> tuple[Floats, Floats, Floats]:
    """Means and sigmas of the logarithms beforehand, and the most that they may be."""
    sigmas = [PACE_SIGMA, *KINDS.values()]
    means, most = [0.0] * len(sigmas), [math.inf] * len(sigmas)
    for level in base.levels:
        low, high = level.link.range_frac
        means.append(math.log(level.link.achieved_frac))
        sigmas.append(max(KNOWN_SIGMA, math.log(high / low) / ENDS_SIGMAS))
        most.append(0.0)
    return np.array(means), np.array(sigmas), np.array(most)


def _known(base: Cluster, steps: Sequence[Measured], x: Floats) -> list[Cluster]:
    """The cluster of every step."""
    known = changed(base, _paces(x).tolist(), np.exp(x[1 + len(KINDS) :]).tolist())
    return [known.resized(one.job.devices) for one in steps]


def _priced(step: Measured, cluster: Cluster) -> float:
    """ln of the predicted seconds of a step."""
    return math.log(float(price_step(step.job, cluster, step.layout.grid()).step_time_s))


def _log_s(base: Cluster, steps: Sequence[Measured], x: Floats) -> Floats:
    """ln of the predicted seconds of every step."""
    return np.array([_priced(*each) for each in zip(steps, _known(base, steps, x), strict=True)])


def _slopes(base: Cluster, steps: Sequence[Measured], x: Floats, found: Floats) -> Floats:
    """How predictions `found` at x change: (steps, unknowns). A link that no device of a step has changes nothing."""
    moved, here = 1e-4, _known(base, steps, x)
    columns = []
    for one in np.eye(len(x)):
        there = _known(base, steps, x - moved * one)
        priced = [
            last if cluster == other else _priced(step, other)
            for step, last, cluster, other in zip(steps, found, here, there, strict=True)
        ]
        columns.append((found - priced) / moved)
    return np.column_stack(columns)


def _factors(base: Cluster, x: Floats, covariance: Floats, slopes: Floats) -> list[Factor]:
    """The pace, what attention, elementwise kernels and host take, and the share of every level some step tells of."""
    own = np.eye(len(x))
    own[1 : 1 + len(KINDS), 0] = 1.0
    names = [PRODUCTS, *KINDS, *(f"{level.name} ({level.link.name})" for level in base.levels)]
    found = []
    for place, (name, parts) in enumerate(zip(names, own, strict=True)):
        rows = int(np.count_nonzero(np.abs(slopes[:, place]) > TELLS))
        if rows or place == 0:
            error = 1.96 * float(np.sqrt(parts @ covariance @ parts))
            low, value, high = (float(f"{np.exp(parts @ x + side * error):.4g}") for side in (-1, 0, 1))
            found.append(Factor(name, value, (low, min(1.0, high) if place > len(KINDS) else high), rows))
    return found


def _with_links(base: Cluster, factors: Sequence[Factor]) -> Cluster:
    """The cluster with links as steps show them; a range that they had is now that of the factor."""
    known, levels = {one.what: one for one in factors}, []
    for level in base.levels:
        one = known.get(f"{level.name} ({level.link.name})")
        if one is not None:
            low, high = one.ci95 if level.link.lowest_frac is not None else (None, None)
            said = f"lockstep calibrate: {one.value:g} of {level.link.name}'s wire rate, steps that tell: {one.rows}"
            sources = {
                **level.link.provenance,
                **dict.fromkeys(("latency_s", "achieved_frac"), Source("fitted", said, "")),
            }
            link = replace(level.link.reaching(one.value), lowest_frac=low, highest_frac=high, provenance=sources)
            level = replace(level, link=replace(link, name=f"{level.link.name}-calibrated"))
        levels.append(level)
    return replace(base, levels=tuple(levels))


def _errors(steps: Sequence[Measured], predicted: Floats) -> list[Error]:
    """Every step beside its prediction, which is given as ln of its seconds."""
    seconds = np.exp(predicted).tolist()
    return [Error(one.name, one.job.devices, one.seconds, each) for one, each in zip(steps, seconds, strict=True)]
