"""DualPipe-V ("cut in half" DualPipe): a V of two chunks per device, split backward passes only where they fill a gap.

    makespan = m (f + b) + (p - 1)(f + max(0, i - w) + max(0, f - b)) / 2
    peak live micro-batches = p + 1/2

p devices, m micro-batches (at least 2p); f, b = i + w seconds of a whole device (two chunks), w its weight-gradient
part. Exact for equal chunks with i <= f, and for f = i = w; else an estimate. DeepSeek's table has F&B + B - 3 W where
we find F + B - 2 W (w <= i, f <= b): there a forward and a backward pass run as one cell that waits for both inputs, so
that the messages of one hide behind the work of the other; here they run one after the other. Overlapped messages
and heavier ends: estimates.

Source: DeepSeek-AI 2024, DeepSeek-V3 technical report (arXiv 2412.19437), section 3.2.1; order as in
torch.distributed.pipelining.ScheduleDualPipeV, with each overlapped pair as F then B.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from lockstep.pipelines.schedule import Order, Pass, Placement, Schedule
from lockstep.pipelines.times import Times, Value
from lockstep.pipelines.zero_bubble_h1 import split_s


def makespan_s(stages: Value, microbatches: Value, chunks: Value, times: Times) -> Value:
    """Seconds of a step."""
    forward_s, input_s, weight_s = split_s(stages, times, 2)
    work_s = forward_s + input_s + weight_s + times.first_s + times.last_s
    wait_s = waiting_s(forward_s, input_s, weight_s) / 2 + 2 * times.delay_s(stages)
    return microbatches * work_s + (stages - 1) * wait_s


def waiting_s(forward_s: Value, input_s: Value, weight_s: Value) -> Value:
    """Seconds that each further device of the V adds to the makespan."""
    return forward_s + np.maximum(0, input_s - weight_s) + np.maximum(0, forward_s - input_s - weight_s)


def peak_live(stages: Value, microbatches: Value, chunks: Value, stage: Value) -> Value:
    """Micro-batches held at most by a device (chunks count 1/2)."""
    return stages + 0.5 + 0 * (microbatches + stage)


def order(stages: int, microbatches: int, chunks: int = 2) -> Order:
    """The eight steps of DualPipe on every device."""
    return [dual_lane(stages, microbatches, s) for s in range(stages)]


def dual_lane(depth: int, microbatches: int, place: int) -> list[Pass]:
    """What a device `place` of `depth` does with two streams of micro-batches, 0 and 1: (pass, micro-batch, stream)."""
    lane: list[Pass] = []
    done = {"F0": 0, "F1": 0, "B0": 0, "B1": 0}
    late: deque[tuple[int, int]] = deque()
    ahead = depth - place - 1

    def add(*steps: str) -> None:
        for step in steps:
            if step == "W":
                lane.append(("W", *late.popleft()))
                continue
            count = ("F" if step[0] == "F" else "B") + step[1]
            lane.append((step[0], done[count], int(step[1])))
            if step[0] == "I":
                late.append((done[count], int(step[1])))
            done[count] += 1

    add(*["F0"] * 2 * ahead)
    add(*["F0", "F1"] * (place + 1))
    add(*["I1", "W", "F1"] * ahead)
    add(*["F0", "B1", "F1", "B0"] * (microbatches - 2 * depth + place + 1))
    add(*["B1", "F1", "B0"] * ahead)
    pairs = ["1", "0"] * (place + 1)
    add(*["B" + stream for stream in pairs[: place + 1]], *["I" + stream for stream in pairs[place + 1 :]])
    add(*["W", "I0"] * ahead)
    add(*["W"] * len(late))
    return lane


def allowed(stages: Value, microbatches: Value, chunks: Value) -> Value:
    """m >= 2p."""
    return np.greater_equal(microbatches, 2 * np.asarray(stages))


DUALPIPE_V = Schedule(
    name="dualpipe-v",
    source="DeepSeek-AI 2024 (arXiv 2412.19437), section 3.2.1",
    formula="m (f + b) + (p - 1)(f + b - 2 w) / 2 for w <= i and f <= b",
    exact="equal chunks, i <= f",
    makespan=makespan_s,
    peak_live=peak_live,
    order=order,
    allowed=allowed,
    rule="micro-batches must be at least twice the stages; two chunks per device",
    num_chunks=2,
    placement=Placement.VEE,
)
