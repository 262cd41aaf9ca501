"""Looped breadth-first: v chunks per device as in interleaving; a chunk takes all micro-batches before the next.

    makespan = ((v - 1) max(m, p) + m + p - 1)(f + b) / v         any m; (m + (p - 1) / v)(f + b) for m >= p
    peak live micro-batches = m on every device

p devices, m micro-batches, v chunks, f and b seconds of a device for all its chunks. The bubble of interleaved 1F1B
at the memory of GPipe; the gradients of a chunk are complete at once, so data-parallel traffic overlaps well.
Overlapped messages of d seconds: max(m g, p (g + d)) takes the place of max(m, p) g for each half with g = f / v or
b / v, and 2 (p - 1) d are added: exact. Heavier ends add m x_first + m x_last: exact for v >= 2 and m >= p, else an
upper bound.

Source: Lamy-Poirier 2023, "Breadth-First Pipeline Parallelism" (arXiv 2211.05953), section 4.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.simulate.parallel.pipeline.schedule import Domain, Order, Schedule, register
from lockstep.simulate.parallel.pipeline.times import Times


def makespan_s(stages: Number, microbatches: Number, chunks: Number, times: Times) -> Number:
    """Seconds of a step."""
    forward_s, backward_s = times.held(stages, chunks)
    halves_s = _half_s(stages, microbatches, chunks, forward_s / chunks, times.delay_s(stages))
    halves_s = halves_s + _half_s(stages, microbatches, chunks, backward_s / chunks, times.delay_s(stages))
    return halves_s + microbatches * (times.first_s + times.last_s)


def _half_s(stages: Number, microbatches: Number, chunks: Number, chunk_s: Number, delay_s: Number) -> Number:
    """Seconds of all forward (or backward) passes: v - 1 whole turns, then one through the pipeline."""
    turn_s = np.maximum(microbatches * chunk_s, stages * (chunk_s + delay_s))
    return (chunks - 1) * turn_s + (microbatches + stages - 1) * chunk_s + (stages - 1) * delay_s


def peak_live(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    """Micro-batches held at most by a device."""
    return microbatches + 0 * (stages + stage)


def order(stages: int, microbatches: int, chunks: int) -> Order:
    """All F of chunk 0, of chunk 1, ...; then all B backwards, the last micro-batch first."""
    lane = [("F", i, c) for c in range(chunks) for i in range(microbatches)]
    lane += [("B", i, c) for c in reversed(range(chunks)) for i in reversed(range(microbatches))]
    return [list(lane) for _ in range(stages)]


BREADTH_FIRST = register(
    Schedule(
        name="breadth-first",
        source="Lamy-Poirier 2023 (arXiv 2211.05953), section 4",
        papers=("lamypoirier2023",),
        formula="((v - 1) max(m, p) + m + p - 1)(f + b) / v + m x",
        exact="equal chunks; heavier ends for v >= 2 and m >= p",
        domain=Domain(overlapped=True, error_frac=(0.0, 0.12)),
        makespan=makespan_s,
        peak_live=peak_live,
        order=order,
        rule="any number of chunks",
        num_chunks=None,
    )
)
