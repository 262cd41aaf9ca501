"""Zero-bubble V: two chunks per device laid out as a V, the loss back on the first device; memory of 1F1B.

    stage_s  = longest of m (f + i + w) + (p - 1) max(0, max(f, i) - w)      and (m + p - 1)(f + i) + w
    makespan = longest of m (f + i + w) + (p - 1) max(f / 2, max(f, i) - w)  and (m + p - 1)(f + i) + w
    peak live micro-batches = p on every stage for m >= 2p - 1 (activations held until W)

p devices, m micro-batches; f forward, i input-gradient and w weight-gradient part of the backward pass of a whole
device (two chunks), in seconds. Exact for equal chunks with f = i = w; stage_s also for w <= f <= i and m >= 2p - 1;
else an estimate, also for messages. The first device holds the first and the last layers: it carries both extras.
For unequal passes `automatic_v` finds better places for the weight gradients.

Source: Qi et al. 2024, "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241), section 6; order as in
torch.distributed.pipelining.ScheduleZBVZeroBubble.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.simulate.parallel.pipeline.schedule import Domain, Order, Pass, Placement, Schedule, register
from lockstep.simulate.parallel.pipeline.schedules.zero_bubble_h1 import split_s
from lockstep.simulate.parallel.pipeline.times import Times


def makespan_s(stages: Number, microbatches: Number, chunks: Number, times: Times) -> Number:
    """Seconds of a step."""
    forward_s, input_s, weight_s = split_s(stages, times, 2)
    wait_s = np.maximum(forward_s / 2, np.maximum(forward_s, input_s) - weight_s)
    return _with_ends_s(stages, microbatches, wait_s, times)


def stage_s(stages: Number, microbatches: Number, chunks: Number, times: Times) -> Number:
    """Seconds of the busiest device from its own start to its own end."""
    forward_s, input_s, weight_s = split_s(stages, times, 2)
    wait_s = np.maximum(0.0, np.maximum(forward_s, input_s) - weight_s)
    return _with_ends_s(stages, microbatches, wait_s, times)


def _with_ends_s(stages: Number, microbatches: Number, wait_s: Number, times: Times) -> Number:
    forward_s, input_s, weight_s = split_s(stages, times, 2)
    work_s = microbatches * (forward_s + input_s + weight_s) + (stages - 1) * wait_s
    few_s = (microbatches + stages - 1) * (forward_s + input_s) + weight_s
    ends_s = microbatches * (times.first_s + times.last_s)
    return np.maximum(work_s, few_s) + ends_s + 2 * (stages - 1) * times.delay_s(stages)


def peak_live(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    """Micro-batches held at most by device `stage` (chunks count 1/2)."""
    down = np.minimum(microbatches, 2 * stages - 1 - stage)
    back = np.minimum(microbatches, stage)
    return (down + back + np.where(np.less(stage, microbatches), 1, 0)) / 2


def order(stages: int, microbatches: int, chunks: int = 2) -> Order:
    """Warm-up down the V, steady F I W of both chunks, then the weight gradients that are left."""
    return [_lane(stages, microbatches, s) for s in range(stages)]


def _lane(stages: int, microbatches: int, stage: int) -> list[Pass]:
    """Written for enough micro-batches to fill the V; the ones that do not exist are dropped at the end."""
    enough = max(2 * stages - 1, microbatches)
    done = dict.fromkeys(("F0", "F1", "I0", "I1", "W0", "W1"), 0)
    lane: list[Pass] = []

    def add(*steps: str) -> None:
        for step in steps:
            lane.append((step[0], done[step], int(step[1])))
            done[step] += 1

    add(*["F0"] * (2 * (stages - stage) - 1))
    add(*["F1", "F0"] * stage)
    add(*["F1", "I1", "W1"] * (stages - stage))
    while done["F1"] < done["F0"] or done["F0"] < enough:
        add(*["F0"] * (done["F0"] < enough), "I0", "W0", "F1", "I1", "W1")
    add(*["I0", "I1"] * stage)
    add(*["I0", "W0"] * (stages - stage))
    add(*["W1"] * (done["I1"] - done["W1"]), *["W0"] * (done["I0"] - done["W0"]))
    return [step for step in lane if step[1] < microbatches]


ZERO_BUBBLE_V = register(
    Schedule(
        name="zb-v",
        source="Qi et al. 2024 (arXiv 2401.10241), section 6",
        papers=("qi2024",),
        formula="stage: m (f + i + w) + (p - 1)(max(f, i) - w); makespan: at least m (f + i + w) + (p - 1) f / 2",
        exact="equal chunks, f = i = w",
        domain=Domain(when=lambda p, m, f, i, w: f == i == w, held=False, error_frac=(-0.1, 0.25)),
        makespan=makespan_s,
        stage=stage_s,
        peak_live=peak_live,
        order=order,
        rule="two chunks per device",
        num_chunks=2,
        placement=Placement.VEE,
    )
)
