"""V-Min: two chunks per device laid out as a V, activations of a third as many micro-batches as 1F1B.

    stage_s = makespan = m max(f + i + w + x, 3 f + x_f, 3 i + x_i) + (p - 1)(f + i) - c (f + i)
    c = 1 / 4, but -1 / 4 where 3 divides p; x = extras of the first and the last stage, x_f and x_i of F and I;
        for p = 2 the larger of 3 f + x_f and 3 i + x_i counts 2 / 3, with (min(f, i) + w) / 2, at least 3 / 2 (f + i)
    peak live micro-batches = floor((p + 4) / 3) (activations held until W); on devices s = 0, 3, 6, ... one less if
        p = 2, 5, 8, ..., on the first one half a micro-batch less

p devices, m > p micro-batches; f forward, i input-gradient and w weight-gradient part of the backward pass of a whole
device (two chunks), in seconds. Every pass is handed on at once, so a device holds each micro-batch for 2p of 6 passes
per micro-batch, the least there is; for the same reason a longer F or I is waited for three times in every
micro-batch. Exact for equal chunks with f = i = w, where the bubble is that of the paper, 2p / 3m; else an estimate,
also for messages. The first device holds the first and the last layers: it carries both extras.

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
    alone = np.equal(stages, 1)
    work_s = forward_s + input_s + weight_s + times.first_s + times.last_s
    ends_s = times.first_forward_s + times.last_forward_s, times.first_backward_s + times.last_backward_s
    both_s = np.maximum(3 * forward_s + ends_s[0], 3 * input_s + ends_s[1] * (1 - times.weight_frac))
    few_s = np.maximum(1.5 * (forward_s + input_s), both_s * 2 / 3 + (np.minimum(forward_s, input_s) + weight_s) / 2)
    pace_s = np.maximum(work_s, np.where(alone, 0.0, np.where(np.equal(stages, 2), few_s, both_s)))
    turns = np.where(alone, 0, 4 * stages - np.where(np.mod(stages, 3) == 0, 3, 5))
    return microbatches * pace_s + turns / 4 * (forward_s + input_s) + 2 * (stages - 1) * times.delay_s(stages)


def peak_live(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    """Micro-batches held at most by a device (chunks count 1/2)."""
    less = np.where(np.equal(stage, 0), 0.5, np.where(np.mod(stage, 3) == 0, 1.0, 0.0))
    return (stages + 4) // 3 - np.where(np.mod(stages, 3) == 2, less, 0.0) + 0 * microbatches


def order(stages: int, microbatches: int, chunks: int = 2) -> Order:
    """The blocks of all micro-batches, closed up."""
    p, turn = stages, 0 if stages % 3 else 2
    block = [(s, 2 * p - 1 - s, 2 * p + turn + s, 4 * p + turn - 1 - s) for s in range(p)]
    return repeated(block, microbatches, 2 * ((p + 4) // 3))


V_MIN = register(
    Schedule(
        name="v-min",
        source="Qi et al. 2024 (arXiv 2405.15362), section 3",
        papers=("qi2024memory",),
        formula="m max(f + i + w, 3 f, 3 i) + (p - 1)(f + i), -+ (f + i) / 4 as 3 divides p or not",
        exact="equal chunks, f = i = w",
        domain=Domain(when=lambda p, m, f, i, w: f == i == w and m > p, held=False, error_frac=(-0.15, 0.24)),
        makespan=makespan_s,
        peak_live=peak_live,
        order=order,
        allowed=enough,
        rule="two chunks per device, more micro-batches than devices",
        num_chunks=2,
        placement=Placement.VEE,
    )
)
