"""Memory against utilisation: the front over stages, micro-batches, schedules; the micro-batches a target needs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lockstep.base.errors import BadInput, Infeasible, Violation
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number
from lockstep.base.types.plain import Json, picked
from lockstep.base.units import format_apart
from lockstep.simulate.parallel.pipeline.registry import get
from lockstep.simulate.parallel.pipeline.schedule import REGISTRY, Placement, Schedule
from lockstep.simulate.parallel.pipeline.times import Times

MOST_MICROBATCHES = 1 << 20


@dataclass(frozen=True, slots=True)
class Point:
    """One way to run: share of time computing, and activations held at most, in units of one micro-batch per model.

    `live_models` is the peak of the fullest device, in micro-batches times the device's share 1 / p of the layers: what
    differs between numbers of stages. `messages` counts what the busiest device sends per step.
    """

    schedule: str
    stages: int
    microbatches: int
    chunks: int
    utilization_frac: float
    live_models: float
    messages: int

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def points(
    stages: Iterable[int],
    microbatches: Iterable[int],
    *,
    names: Iterable[str] | None = None,
    chunks: Iterable[int] = (1, 2, 4),
    forward_s: float = 1.0,
    backward_s: float = 2.0,
    weight_s: float | None = None,
    transfer_s: float = 0.0,
    blocking: bool = True,
) -> list[Point]:
    """All valid combinations, in the order given. Times are of the whole model: a device of p needs 1 / p of them."""
    found = []
    grid = [(p, m) for p in stages for m in microbatches]
    for schedule in REGISTRY.every() if names is None else [get(name) for name in names]:
        for v in chunks if schedule.num_chunks is None else (schedule.num_chunks,):
            for p, m in grid:
                if not schedule.valid(p, m, v):
                    continue
                weight_p_s = None if weight_s is None else weight_s / p
                times = Times(forward_s / p, backward_s / p, weight_p_s, transfer_s, blocking)
                used = schedule.cost(p, m, v, times).utilization_frac
                live = float(np.max(schedule.peak_live(p, m, v, np.arange(p)))) / p
                found.append(Point(schedule.name, p, m, v, float(used), live, messages(schedule, p, m, v)))
    return found


def messages(schedule: Schedule, stages: int, microbatches: int, chunks: int) -> int:
    """Most messages one device sends per step: an activation per forward and a gradient per backward pass of a chunk.

    A device inside the pipeline sends 2 m v (with two copies of the model each micro-batch passes one of them). Of two
    devices both are ends, and the end of a route, or the turn of a V, sends nothing.
    """
    if stages == 1:
        return 0
    passes = microbatches * chunks // schedule.copies
    silent = microbatches * (2 if schedule.placement is Placement.VEE else 1) if stages == 2 else 0
    return 2 * passes - silent


def pareto(candidates: Iterable[Point]) -> list[Point]:
    """The points that no other beats: more utilisation or less memory, and not worse in the other. By memory, upwards.

    Ties: the first in (memory, -utilisation, messages, name, stages, microbatches, chunks).
    """
    ranked = sorted(
        candidates,
        key=lambda q: (q.live_models, -q.utilization_frac, q.messages, q.schedule, q.stages, q.microbatches, q.chunks),
    )
    front: list[Point] = []
    for point in ranked:
        if not front or point.utilization_frac > front[-1].utilization_frac:
            front.append(point)
    return front


def smallest_microbatches(
    schedule: str, stages: int, target_frac: float, *, chunks: int | None = None, **times: Number
) -> int:
    """Fewest micro-batches that reach a utilisation of `target_frac`; `times` are the fields of `Times`.

    Equal stages without transfers: ceil(e (p - 1) / (1 - e)) for GPipe and 1F1B; 1 / v of it, up to a number that the
    schedule allows, when interleaved. Raises Infeasible when no number reaches the target (transfers or heavier ends
    take too much).
    """
    if not 0 < target_frac < 1:
        raise BadInput(f"a target utilisation is between 0 and 1, got {target_frac}")
    chosen = get(schedule)
    v = chunks or chosen.num_chunks or 2
    fields: Json = {"forward_s": 1.0, "backward_s": 2.0} | times
    given = Times(**fields)
    low = 1
    while low <= MOST_MICROBATCHES:
        numbers = np.arange(low, 2 * low)
        used = chosen.cost(stages, numbers, v, given).utilization_frac
        enough = numbers[chosen.valid(stages, numbers, v) & (used >= target_frac * (1 - 1e-12))]
        if enough.size:
            return int(enough[0])
        low *= 2
    reached = float(chosen.cost(stages, MOST_MICROBATCHES, v, given).utilization_frac)
    most, wanted = format_apart(reached, target_frac)
    why = f"{schedule} on {stages} stages reaches a utilisation of {most} with {MOST_MICROBATCHES:,} micro-batches"
    raise Infeasible(f"{why}, not {wanted}", [Violation(why, target_frac, reached)])
