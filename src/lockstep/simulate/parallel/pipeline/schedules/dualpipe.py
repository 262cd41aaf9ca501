"""DualPipe: micro-batches enter at both ends of two copies of the model; forward passes share cells with backward ones.

    makespan = (m - p/2 - 2) c + p (f + i) + max(p f/2 + i, p i/2) + 3 w + (p/2 - 1) max(0, w - i)
    peak live micro-batches = p + 1, both directions together
    cells of device s = m - 3 p/2 + r + 1 - [r = p/2 - 1],    r = min(s, p - 1 - s)

p devices (even), m micro-batches (even, at least 2p; even ones down, odd ones up); f, b = i + w seconds of a stage,
w the weight-gradient part of b, c those of a cell (F&B), f + b without traffic. Exact for equal stages with
max(f, b) <= c <= f + b. Where i = f and w <= i, the middle devices wait (p/2 - 1)(F&B + B - 3 W) in all, which is
DeepSeek's table 2. Every device holds two stages' weights. Overlapped messages, heavier ends (first and last device
both carry half of both extras) and cells shorter than a pass (with traffic that a pass alone waits for): estimates.

Source: DeepSeek-AI 2024, DeepSeek-V3 technical report (arXiv 2412.19437), section 3.2.1, figure 5 and table 2.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from lockstep.base.types.arrays import Number, Truth
from lockstep.simulate.parallel.pipeline.schedule import Cells, Domain, Order, Pass, Placement, Schedule, register
from lockstep.simulate.parallel.pipeline.schedules.zero_bubble_h1 import split_s
from lockstep.simulate.parallel.pipeline.times import Times


def makespan_s(stages: Number, microbatches: Number, chunks: Number, times: Times) -> Number:
    """Seconds of a step."""
    passes_s = dual_s(stages / 2, microbatches, *split_s(stages, times), times.held_cell_s(stages))
    ends_s = microbatches * (times.first_s + times.last_s) / 2
    return passes_s + ends_s + 2 * (stages - 1) * times.delay_s(stages)


def dual_s(
    depth: Number, passes: Number, forward_s: Number, input_s: Number, weight_s: Number, cell_s: Number
) -> Number:
    """Seconds of two streams of `passes` micro-batches in all through a V of `depth` devices, times of one chunk."""
    turn_s = np.maximum(depth * forward_s + input_s, depth * input_s)
    filled_s = 3 * weight_s + (depth - 1) * np.maximum(0, weight_s - input_s)
    return (passes - depth - 2) * cell_s + 2 * depth * (forward_s + input_s) + turn_s + filled_s


def num_cells(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    """Cells of a device."""
    return dual_cells(stages / 2, microbatches, np.minimum(stage, stages - 1 - stage))


def dual_cells(depth: Number, passes: Number, place: Number) -> Number:
    """Cells of a device `place` of a V of `depth`, one chunk each."""
    return passes - 3 * depth + place + 1 - np.equal(place, depth - 1)


def peak_live(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    """Micro-batches held at most by a device."""
    return stages + 1 + 0 * (microbatches + stage)


def order(stages: int, microbatches: int, chunks: int = 2) -> Order:
    """Each half of the devices is a DualPipe-V of half the depth; stream 0 comes from the nearer end."""
    return [_lane(stages, microbatches, s)[0] for s in range(stages)]


def cells(stages: int, microbatches: int, chunks: int = 2) -> Cells:
    """Where a device runs a forward and a backward pass of the two directions as one."""
    return [_lane(stages, microbatches, s)[1] for s in range(stages)]


def _lane(stages: int, microbatches: int, stage: int) -> tuple[list[Pass], frozenset[int]]:
    near = 0 if stage < stages // 2 else 1
    lane, paired = dual_lane(stages // 2, microbatches // 2, min(stage, stages - 1 - stage))
    return [(step, 2 * i + (stream ^ near), stream ^ near) for step, i, stream in lane], paired


def dual_lane(depth: int, microbatches: int, place: int) -> tuple[list[Pass], frozenset[int]]:
    """What a device `place` of `depth` does with two streams of micro-batches, 0 and 1, and where it has cells.

    Passes are (pass, micro-batch, stream). The last device begins the middle part without a cell: its two inputs come
    one after the other.
    """
    lane: list[Pass] = []
    paired: set[int] = set()
    done = {"F0": 0, "F1": 0, "B0": 0, "B1": 0}
    late: deque[tuple[int, int]] = deque()
    ahead = depth - place - 1

    def add(*steps: str) -> None:
        for step in steps:
            if step == "&":
                paired.add(len(lane))
                continue
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
    middle = ["&", "F0", "B1", "&", "F1", "B0"] * (microbatches - 2 * depth + place + 1)
    add(*middle[1 if ahead == 0 else 0 :])
    add(*["B1", "&", "F1", "B0"] * ahead)
    pairs = ["1", "0"] * (place + 1)
    add(*["B" + stream for stream in pairs[: place + 1]], *["I" + stream for stream in pairs[place + 1 :]])
    add(*["W", "I0"] * ahead)
    add(*["W"] * len(late))
    return lane, frozenset(paired)


def allowed(stages: Number, microbatches: Number, chunks: Number) -> Truth:
    """p and m even, m >= 2p."""
    even = np.equal(np.mod(stages, 2), 0) & np.equal(np.mod(microbatches, 2), 0)
    found: Truth = even & np.greater_equal(microbatches, 2 * np.asarray(stages))
    return found


DUALPIPE = register(
    Schedule(
        name="dualpipe",
        source="DeepSeek-AI 2024 (arXiv 2412.19437), section 3.2.1",
        papers=("deepseek2024",),
        formula="(m - p/2 - 2) c + p (f + i) + max(p f/2 + i, p i/2) + 3 w for w <= i; c: F and B as one cell",
        exact="equal stages, max(f, b) <= c <= f + b",
        domain=Domain(held=False, error_frac=(-0.02, 0.12)),
        makespan=makespan_s,
        peak_live=peak_live,
        order=order,
        cells=cells,
        num_cells=num_cells,
        allowed=allowed,
        rule="stages and micro-batches must be even, micro-batches at least twice the stages; "
        "two copies of the weights",
        num_chunks=2,
        placement=Placement.BOTH_WAYS,
        copies=2,
    )
)
