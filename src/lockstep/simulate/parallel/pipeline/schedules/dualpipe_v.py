"""DualPipe-V ("cut in half" DualPipe): a V of two chunks per device; forward passes share cells with backward ones.

    makespan = ((2 m - p - 2) c + 2 p (f + i) + max(p f + i, p i) + 3 w + (p - 1) max(0, w - i)) / 2
    peak live micro-batches = p + 1/2
    cells of device s = (2 m - 3 p + s + 1 - [s = p - 1]) / 2

p devices, m micro-batches (at least 2p); f, b = i + w seconds of a whole device (two chunks), w its weight-gradient
part, c those of a cell (F&B), f + b without traffic. Exact for equal chunks with max(f, b) <= c <= f + b. Where i = f
and w <= i, the last device waits (p - 1)/2 (F&B + B - 3 W) in all, which is DeepSeek's table 2. Overlapped messages,
heavier ends and cells shorter than a pass (with traffic that a pass alone waits for): estimates.

Source: DeepSeek-AI 2024, DeepSeek-V3 technical report (arXiv 2412.19437), section 3.2.1, table 2; order and cells as in
torch.distributed.pipelining.ScheduleDualPipeV.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number, Truth
from lockstep.simulate.parallel.pipeline.schedule import Cells, Domain, Order, Placement, Schedule, register
from lockstep.simulate.parallel.pipeline.schedules.dualpipe import dual_cells, dual_lane, dual_s
from lockstep.simulate.parallel.pipeline.schedules.zero_bubble_h1 import split_s
from lockstep.simulate.parallel.pipeline.times import Times


def makespan_s(stages: Number, microbatches: Number, chunks: Number, times: Times) -> Number:
    """Seconds of a step."""
    forward_s, input_s, weight_s = split_s(stages, times, 2)
    cell_s = times.held_cell_s(stages, 2)
    passes_s = dual_s(stages, 2 * microbatches, forward_s, input_s, weight_s, cell_s) / 2
    delays_s = 2 * (stages - 1) * times.delay_s(stages)
    return passes_s + microbatches * (times.first_s + times.last_s) + delays_s


def peak_live(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    """Micro-batches held at most by a device (chunks count 1/2)."""
    return stages + 0.5 + 0 * (microbatches + stage)


def num_cells(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    """Cells of a device, of two chunks each."""
    return dual_cells(stages, 2 * microbatches, stage) / 2


def order(stages: int, microbatches: int, chunks: int = 2) -> Order:
    """The eight steps of DualPipe on every device."""
    return [dual_lane(stages, microbatches, s)[0] for s in range(stages)]


def cells(stages: int, microbatches: int, chunks: int = 2) -> Cells:
    """Where a device runs a forward and a backward pass as one."""
    return [dual_lane(stages, microbatches, s)[1] for s in range(stages)]


def allowed(stages: Number, microbatches: Number, chunks: Number) -> Truth:
    """m >= 2p."""
    found: Truth = np.greater_equal(microbatches, 2 * np.asarray(stages))
    return found


DUALPIPE_V = register(
    Schedule(
        name="dualpipe-v",
        source="DeepSeek-AI 2024 (arXiv 2412.19437), section 3.2.1",
        papers=("deepseek2024",),
        formula="((2 m - p - 2) c + 2 p (f + i) + max(p f + i, p i) + 3 w) / 2 for w <= i; c: F and B as one cell",
        exact="equal chunks, max(f, b) <= c <= f + b",
        domain=Domain(held=False, error_frac=(-0.02, 0.16)),
        makespan=makespan_s,
        peak_live=peak_live,
        order=order,
        cells=cells,
        num_cells=num_cells,
        allowed=allowed,
        rule="micro-batches must be at least twice the stages; two chunks per device",
        num_chunks=2,
        placement=Placement.VEE,
    )
)
