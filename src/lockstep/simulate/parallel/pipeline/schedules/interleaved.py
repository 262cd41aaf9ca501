"""Interleaved 1F1B: each device holds v chunks of layers, p devices apart, so the pipeline fills v times faster.

    makespan = m (f + b + x) + (p - 1)(f + b) / v        x: extra of the last device (head and loss)
    bubble share = (p - 1) / (v m + p - 1) for equal stages: v times less bubble than 1F1B, v times the messages
    peak live micro-batches = min(m v, 2 (p - s - 1) + (v - 1) k + 1) / v: p + (p - 1) / v on device 0 for m > p = k

p devices, m micro-batches, v chunks, f and b seconds of a device for all its chunks. A device runs k micro-batches
through one chunk before it turns to the next. The paper has k = p, so that m is a multiple of p; software takes any m
that splits into m // p equal groups, k = m / (m // p) >= p, and torch also m < p, one group that fills v p stages one
after another: makespan (v p + m - 1)(f + b) / v. Exact for equal chunks and a last device that is heavier by any x. A
heavier first device is priced like the last: an upper bound, at most some percent too high. Overlapped messages of d
seconds add 2 (p v - 1) d, exact for equal chunks and short d; with k > p the other k - p micro-batches hide a part.

Source: Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters" (arXiv 2104.04473),
section 2.2; the order is that of Megatron-LM. Groups: ScheduleInterleaved1F1B of torch 2.13
(distributed/pipelining/schedules.py), and microbatch_group_size_per_vp_stage of Megatron Core 0.19
(pipeline_parallel/schedules.py), which refuses m < p, and also takes a last group of p to k micro-batches, not priced.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number, Truth
from lockstep.simulate.parallel.pipeline.schedule import Domain, Order, Pass, Schedule, register
from lockstep.simulate.parallel.pipeline.times import Times


def group_size(stages: Number, microbatches: Number) -> Number:
    """Micro-batches that a device runs through one chunk before it turns to the next."""
    return np.floor_divide(microbatches, _rounds(stages, microbatches))


def _rounds(stages: Number, microbatches: Number) -> Number:
    """Groups in a step."""
    return np.maximum(1, np.floor_divide(microbatches, np.maximum(stages, 1)))


def makespan_s(stages: Number, microbatches: Number, chunks: Number, times: Times) -> Number:
    """Seconds of a step."""
    forward_s, backward_s = times.held(stages, chunks)
    slots = np.maximum(microbatches * chunks + stages, stages * chunks + microbatches) - 1
    heavier_s = np.maximum(times.first_s, times.last_s)
    lighter_s = np.minimum(times.first_s, times.last_s) * np.where(np.equal(stages, 1), microbatches, 1)
    fill_s = slots * (forward_s + backward_s) / chunks
    passes_s: Number = fill_s + microbatches * heavier_s + lighter_s
    delay_s = times.delay_s(stages)
    spare = np.maximum(0, group_size(stages, microbatches) - stages) / chunks
    waits_s = sum(np.maximum(0.0, stages * delay_s - spare * pass_s) for pass_s in (forward_s, backward_s))
    return passes_s + 2 * (stages - 1) * delay_s + (chunks - 1) * waits_s


def peak_live(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    """Micro-batches held at most by device `stage` (a fraction: chunks count 1 / v)."""
    return np.minimum(microbatches * chunks, _warmup(stages, microbatches, chunks, stage) + 1) / chunks


def order(stages: int, microbatches: int, chunks: int) -> Order:
    """Megatron-LM's order: groups of micro-batches, chunk after chunk."""
    return [_lane(stages, microbatches, chunks, s) for s in range(stages)]


def _lane(stages: int, microbatches: int, chunks: int, stage: int) -> list[Pass]:
    passes, size = microbatches * chunks, int(group_size(stages, microbatches))
    forward = [("F", *_turn(k, size, chunks)) for k in range(passes)]
    backward = [("B", i, chunks - 1 - c) for i, c in (_turn(k, size, chunks) for k in range(passes))]
    warmup = min(passes, int(_warmup(stages, microbatches, chunks, stage)))
    steady = [step for pair in zip(forward[warmup:], backward, strict=False) for step in pair]
    return forward[:warmup] + steady + backward[passes - warmup :]


def _warmup(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    """Forward passes before the first backward pass starts its turns."""
    return 2 * (stages - stage - 1) + (chunks - 1) * group_size(stages, microbatches)


def _turn(index: int, size: int, chunks: int) -> tuple[int, int]:
    """(micro-batch, chunk) of the index-th forward pass of a device, in groups of `size` micro-batches."""
    group, within = divmod(index, size * chunks)
    return group * size + within % size, within // size


def allowed(stages: Number, microbatches: Number, chunks: Number) -> Truth:
    """m in equal groups, of p micro-batches or a few more, and at least two chunks."""
    return np.equal(np.mod(microbatches, _rounds(stages, microbatches)), 0) & np.greater_equal(chunks, 2)


INTERLEAVED = register(
    Schedule(
        name="interleaved",
        source="Narayanan et al. 2021 (arXiv 2104.04473), section 2.2",
        papers=("narayanan2021",),
        formula="m (f + b + x_last) + (p - 1)(f + b) / v",
        exact="equal chunks, heavier last device; heavier first device: upper bound",
        domain=Domain(ends=("last",), overlapped=True, error_frac=(-0.15, 0.12)),
        makespan=makespan_s,
        peak_live=peak_live,
        order=order,
        allowed=allowed,
        rule="micro-batches must be a multiple of micro-batches // stages (rounded down), and chunks at least 2",
        num_chunks=None,
    )
)
