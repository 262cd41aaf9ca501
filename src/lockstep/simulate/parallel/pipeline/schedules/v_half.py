"""V-Half: two chunks per device laid out as a V, half as many micro-batches in memory as 1F1B.

    stage_s = makespan = m max(f + i + w + x, 2 f + w + x_f) + (p - 1) 3/4 (f + i) + p/2 max(0, max(f, i) - w) - c
    c = 0 for even p, (f + i) / 4 for odd p; x = extras of the first and the last stage, x_f of their forward passes
    peak live micro-batches = floor((p + 2) / 2) on every device (activations held until W)

p devices, m > p micro-batches; f forward, i input-gradient and w weight-gradient part of the backward pass of a whole
device (two chunks), in seconds. A forward pass goes down the V at every second pass of a device and up at every one,
the gradients likewise, so a device holds each micro-batch for 3p of 6 passes per micro-batch. Exact for equal chunks
with f = i = w, where the bubble is that of the paper, p / 2m; else an estimate, also for messages. The first device
holds the first and the last layers: it carries both extras.

Source: Qi et al. 2024, "Pipeline Parallelism with Controllable Memory" (arXiv 2405.15362), sections 3.2 and 3.3; the
block as in the authors' scheduler, zbv_greedy.py of github.com/sail-sg/zero-bubble-pipeline-parallelism (stable
pattern; we leave out its reordering, and place weight gradients anew).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.simulate.parallel.pipeline.blocks import enough, repeated
from lockstep.simulate.parallel.pipeline.schedule import Domain, Order, Placement, Schedule, register
from lockstep.simulate.parallel.pipeline.schedules.zero_bubble_h1 import split_s
from lockstep.simulate.parallel.pipeline.times import Times


def makespan_s(stages: Number, microbatches: Number, chunks: Number, times: Times) -> Number:
    """Seconds of a step."""
    forward_s, input_s, weight_s = split_s(stages, times, 2)
    work_s = forward_s + input_s + weight_s + times.first_s + times.last_s
    ends_s = times.first_forward_s + times.last_forward_s
    pace_s = np.maximum(work_s, np.where(np.equal(stages, 1), 0.0, 2 * forward_s + weight_s + ends_s))
    turns = np.where(np.equal(stages, 1), 0, 3 * (stages - 1) - np.mod(stages, 2))
    late_s = stages / 2 * np.maximum(0.0, np.maximum(forward_s, input_s) - weight_s)
    fill_s = turns / 4 * (forward_s + input_s) + np.where(np.equal(stages, 1), 0.0, late_s)
    seconds: Number = microbatches * pace_s + fill_s + 2 * (stages - 1) * times.delay_s(stages)
    return seconds


def peak_live(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    """Micro-batches held at most by a device."""
    return (stages + 2) // 2 + 0 * (microbatches + stage)


def order(stages: int, microbatches: int, chunks: int = 2) -> Order:
    """The blocks of all micro-batches, closed up."""
    p, turn = stages, 0 if stages % 2 else 3
    block = [(2 * s, 3 * p - 2 - s, 3 * p - 1 + turn + 2 * s, 6 * p - 2 + turn - s) for s in range(p)]
    return repeated(block, microbatches, 2 * int(peak_live(p, microbatches, 2, 0)))


V_HALF = register(
    Schedule(
        name="v-half",
        source="Qi et al. 2024 (arXiv 2405.15362), section 3",
        papers=("qi2024memory",),
        formula="m (f + i + w) + (p - 1)(3 / 4)(f + i), less (f + i) / 4 for odd p",
        exact="equal chunks, f = i = w",
        domain=Domain(when=lambda p, m, f, i, w: f == i == w and m > p, held=False, error_frac=(-0.12, 0.22)),
        makespan=makespan_s,
        peak_live=peak_live,
        order=order,
        allowed=enough,
        rule="two chunks per device, more micro-batches than devices",
        num_chunks=2,
        placement=Placement.VEE,
    )
)
