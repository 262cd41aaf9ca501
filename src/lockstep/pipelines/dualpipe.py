"""DualPipe: micro-batches enter at both ends of two copies of the model; split backward passes fill the gaps that stay.

    makespan = m (f + b) + (p / 2 - 1)(f + max(0, i - w) + max(0, f - b))
    peak live micro-batches = p + 1, both directions together

p devices (even), m micro-batches (even, at least 2p; even ones down, odd ones up); f, b = i + w seconds of a stage,
w the weight-gradient part of b. Exact for equal stages with i <= f, and for f = i = w; else an estimate. DeepSeek's
table has F&B + B - 3 W where we find F + B - 2 W: see `dualpipe_v`. Every device holds two stages' weights. Overlapped
messages and heavier ends: estimates (first and last device both carry half of both extras).

Source: DeepSeek-AI 2024, DeepSeek-V3 technical report (arXiv 2412.19437), section 3.2.1, figure 5 and table 2.
"""

from __future__ import annotations

import numpy as np

from lockstep.pipelines.dualpipe_v import dual_lane, waiting_s
from lockstep.pipelines.schedule import Order, Placement, Schedule
from lockstep.pipelines.times import Times, Value
from lockstep.pipelines.zero_bubble_h1 import split_s


def makespan_s(stages: Value, microbatches: Value, chunks: Value, times: Times) -> Value:
    """Seconds of a step."""
    forward_s, input_s, weight_s = split_s(stages, times)
    work_s = forward_s + input_s + weight_s + (times.first_s + times.last_s) / 2
    wait_s = (stages / 2 - 1) * waiting_s(forward_s, input_s, weight_s)
    return microbatches * work_s + wait_s + 2 * (stages - 1) * times.delay_s(stages)


def peak_live(stages: Value, microbatches: Value, chunks: Value, stage: Value) -> Value:
    """Micro-batches held at most by a device."""
    return stages + 1 + 0 * (microbatches + stage)


def order(stages: int, microbatches: int, chunks: int = 2) -> Order:
    """Each half of the devices is a DualPipe-V of half the depth; stream 0 comes from the nearer end."""
    return [_lane(stages, microbatches, s) for s in range(stages)]


def _lane(stages: int, microbatches: int, stage: int) -> list[tuple[str, int, int]]:
    near = 0 if stage < stages // 2 else 1
    lane = dual_lane(stages // 2, microbatches // 2, min(stage, stages - 1 - stage))
    return [(step, 2 * i + (stream ^ near), stream ^ near) for step, i, stream in lane]


def allowed(stages: Value, microbatches: Value, chunks: Value) -> Value:
    """p and m even, m >= 2p."""
    even = np.equal(np.mod(stages, 2), 0) & np.equal(np.mod(microbatches, 2), 0)
    return even & np.greater_equal(microbatches, 2 * np.asarray(stages))


DUALPIPE = Schedule(
    name="dualpipe",
    source="DeepSeek-AI 2024 (arXiv 2412.19437), section 3.2.1",
    formula="m (f + b) + (p / 2 - 1)(f + b - 2 w) for w <= i and f <= b",
    exact="equal stages, i <= f",
    makespan=makespan_s,
    peak_live=peak_live,
    order=order,
    allowed=allowed,
    rule="stages and micro-batches must be even, micro-batches at least twice the stages; two copies of the weights",
    num_chunks=2,
    placement=Placement.BOTH_WAYS,
    copies=2,
)
