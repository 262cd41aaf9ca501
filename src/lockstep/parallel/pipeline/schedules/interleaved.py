"""Interleaved 1F1B: each device holds v chunks of layers, p devices apart, so the pipeline fills v times faster.

    makespan = m (f + b + x) + (p - 1)(f + b) / v        x: extra of the last device (head and loss)
    bubble share = (p - 1) / (v m + p - 1) for equal stages: v times less bubble than 1F1B, v times the messages
    peak live micro-batches = min(m v, 2 (p - s - 1) + (v - 1) p + 1) / v: p + (p - 1) / v on device 0 for m > p

p devices, m micro-batches (a multiple of p), v chunks, f and b seconds of a device for all its chunks. Exact for equal
chunks and a last device that is heavier by any x. A heavier first device is priced like the last: an upper bound, at
most some percent too high. Overlapped messages of d seconds add 2 (p v - 1) d, exact for equal chunks and short d.

Source: Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters" (arXiv 2104.04473),
section 2.2; the order is that of Megatron-LM.
"""

from __future__ import annotations

import numpy as np

from lockstep.parallel.pipeline.schedule import Domain, Order, Pass, Schedule, register
from lockstep.parallel.pipeline.times import Times
from lockstep.types.arrays import Number, Truth


def makespan_s(stages: Number, microbatches: Number, chunks: Number, times: Times) -> Number:
    """Seconds of a step."""
    forward_s, backward_s = times.held(stages, chunks)
    slots = microbatches * chunks + stages - 1
    heavier_s = np.maximum(times.first_s, times.last_s)
    lighter_s = np.minimum(times.first_s, times.last_s) * np.where(np.equal(stages, 1), microbatches, 1)
    fill_s = slots * (forward_s + backward_s) / chunks
    passes_s: Number = fill_s + microbatches * heavier_s + lighter_s
    return passes_s + 2 * (stages * chunks - 1) * times.delay_s(stages)


def peak_live(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    """Micro-batches held at most by device `stage` (a fraction: chunks count 1 / v)."""
    return np.minimum(microbatches * chunks, _warmup(stages, chunks, stage) + 1) / chunks


def order(stages: int, microbatches: int, chunks: int) -> Order:
    """Megatron-LM's order: groups of p micro-batches, chunk after chunk."""
    return [_lane(stages, microbatches, chunks, s) for s in range(stages)]


def _lane(stages: int, microbatches: int, chunks: int, stage: int) -> list[Pass]:
    passes = microbatches * chunks
    forward = [("F", *_turn(k, stages, chunks)) for k in range(passes)]
    backward = [("B", i, chunks - 1 - c) for i, c in (_turn(k, stages, chunks) for k in range(passes))]
    warmup = min(passes, int(_warmup(stages, chunks, stage)))
    steady = [step for pair in zip(forward[warmup:], backward, strict=False) for step in pair]
    return forward[:warmup] + steady + backward[passes - warmup :]


def _warmup(stages: Number, chunks: Number, stage: Number) -> Number:
    """Forward passes before the first backward pass starts its turns."""
    return 2 * (stages - stage - 1) + (chunks - 1) * stages


def _turn(index: int, stages: int, chunks: int) -> tuple[int, int]:
    """(micro-batch, chunk) of the index-th forward pass of a device."""
    group, within = divmod(index, stages * chunks)
    return group * stages + within % stages, within // stages


def allowed(stages: Number, microbatches: Number, chunks: Number) -> Truth:
    """m a multiple of p and at least two chunks."""
    return np.equal(np.mod(microbatches, np.maximum(stages, 1)), 0) & np.greater_equal(chunks, 2)


INTERLEAVED = register(
    Schedule(
        name="interleaved",
        source="Narayanan et al. 2021 (arXiv 2104.04473), section 2.2",
        papers=("narayanan2021",),
        formula="m (f + b + x_last) + (p - 1)(f + b) / v",
        exact="equal chunks, heavier last device; heavier first device: upper bound",
        domain=Domain(ends=("last",), error_frac=(-0.15, 0.12)),
        makespan=makespan_s,
        peak_live=peak_live,
        order=order,
        allowed=allowed,
        rule="micro-batches must be a multiple of the stages, and chunks at least 2",
        num_chunks=None,
    )
)
