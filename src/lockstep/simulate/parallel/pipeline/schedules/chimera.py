"""Chimera: two copies of the model in opposite directions share the devices, and each fills the bubble of the other.

    makespan = m (f + b) + (p - 2)(max(f, b) + (m / p - 1) |b - f|)         exact for equal stages
    peak live micro-batches = p / 2 + 1 + min(s, p - 1 - s)

p stages (even), m micro-batches (a multiple of p, even ones down, odd ones up), f and b seconds of a stage. For
f = b the bubble is p - 2 slots, half of 1F1B; every device holds two stages' weights. Units of p micro-batches are
concatenated directly: with b = 2 f each unit after the first adds (p - 2)(b - f), the intermediate bubble of the
paper. Overlapped messages and heavier ends: estimates (first and last device both carry half of both extras).

Source: Li and Hoefler 2021, "Chimera" (arXiv 2107.06925), sections 3.1, 3.2 and 3.5.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number, Truth
from lockstep.simulate.parallel.pipeline.schedule import Domain, Order, Placement, Schedule, register
from lockstep.simulate.parallel.pipeline.times import Times


def makespan_s(stages: Number, microbatches: Number, chunks: Number, times: Times) -> Number:
    """Seconds of a step."""
    p, m = stages, microbatches
    forward_s, backward_s = times.held(p)
    between_s = (m / p - 1) * np.abs(backward_s - forward_s)
    waiting_s = (p - 2) * (np.maximum(forward_s, backward_s) + between_s)
    ends_s = m * (times.first_s + times.last_s) / 2
    return m * (forward_s + backward_s) + waiting_s + 2 * (p - 1) * times.delay_s(p) + ends_s


def peak_live(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    """Micro-batches held at most by device `stage`, both directions together."""
    return stages // 2 + 1 + np.minimum(stage, stages - 1 - stage) + 0 * microbatches


def order(stages: int, microbatches: int, chunks: int = 2) -> Order:
    """Slots of one pass: a direction starts a micro-batch every second slot, a unit every 2p slots; none collide."""
    return [_lane(stages, microbatches, s) for s in range(stages)]


def _lane(stages: int, microbatches: int, stage: int) -> list[tuple[str, int, int]]:
    slots = []
    for i in range(microbatches):
        turn, way = divmod(i, 2)
        unit, place = divmod(turn, stages // 2)
        depth = stage if way == 0 else stages - 1 - stage
        start = 2 * stages * unit + 2 * place
        slots += [(start + depth, ("F", i, way)), (start + 2 * stages - 1 - depth, ("B", i, way))]
    return [step for _, step in sorted(slots)]


def allowed(stages: Number, microbatches: Number, chunks: Number) -> Truth:
    """p even, m a multiple of p."""
    return np.equal(np.mod(stages, 2), 0) & np.equal(np.mod(microbatches, np.maximum(stages, 1)), 0)


CHIMERA = register(
    Schedule(
        name="chimera",
        source="Li and Hoefler 2021 (arXiv 2107.06925), section 3",
        papers=("li2021",),
        formula="m (f + b) + (p - 2)(max(f, b) + (m / p - 1) |b - f|)",
        exact="equal stages",
        domain=Domain(error_frac=(-0.05, 0.19)),
        makespan=makespan_s,
        peak_live=peak_live,
        order=order,
        allowed=allowed,
        rule="stages must be even and micro-batches a multiple of the stages; two copies of the weights",
        num_chunks=2,
        placement=Placement.BOTH_WAYS,
        copies=2,
    )
)
