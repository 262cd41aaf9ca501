"""Naive model parallelism: one micro-batch at a time walks through all stages and back; one device works at a time.

    makespan = m (p (f + b) + x)         exact for any stage times
    peak live micro-batches = 1

p stages, m micro-batches, f and b seconds of a middle stage, x extra seconds of first and last stage. Blocking messages
make f and b longer; overlapped ones add 2 (p - 1) transfers per micro-batch.

Source: Huang et al. 2019, "GPipe", figure 2b (arXiv 1811.06965).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.simulate.parallel.pipeline.schedule import Domain, Order, Schedule, register
from lockstep.simulate.parallel.pipeline.times import Times


def makespan_s(stages: Number, microbatches: Number, chunks: Number, times: Times) -> Number:
    """Seconds of a step."""
    forward_s, backward_s = times.held(stages)
    walk_s = stages * (forward_s + backward_s) + times.first_s + times.last_s
    return microbatches * (walk_s + 2 * (stages - 1) * times.delay_s(stages))


def peak_live(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    """Micro-batches held at most by a device."""
    return np.minimum(microbatches, 1) + 0 * (stages + stage)


def order(stages: int, microbatches: int, chunks: int = 1) -> Order:
    """F then B of each micro-batch: the next one starts when the one before has come back."""
    lane = [(step, i, 0) for i in range(microbatches) for step in "FB"]
    return [list(lane) for _ in range(stages)]


NAIVE = register(
    Schedule(
        name="naive",
        source="Huang et al. 2019 (arXiv 1811.06965), figure 2b",
        papers=("huang2019",),
        formula="m (p (f + b) + x)",
        exact="stage 0 starts the next micro-batch only after its backward pass: exact always",
        domain=Domain(ends=("first", "last"), overlapped=True),
        makespan=makespan_s,
        peak_live=peak_live,
        order=order,
    )
)
