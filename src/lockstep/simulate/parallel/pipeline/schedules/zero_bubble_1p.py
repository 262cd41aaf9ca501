"""Automatic zero bubble with the memory of 1F1B (ZB-1p): the order is searched for the given times (`automatic.py`).

    stage_s  = makespan of zb-h1: m (f + i + w) + (p - 1)(f + i - w) for m >= p
    makespan = longest of stage_s and m (f + i + w) + (p - 1) f    the devices start one after another
    peak live micro-batches = min(m, p) on every stage (activations held until W)

p stages, m micro-batches; f forward, i input-gradient and w weight-gradient part of the backward pass, in seconds.
Exact for equal stages with w <= f and w <= i without messages, where no order found beats zb-h1; elsewhere, and with
messages or heavier ends, an estimate. What the search gains over zb-h1 it gains from messages
and from weight gradients that take longer. The paper lets W hold less than F, which we leave out.

Source: Qi et al. 2024, "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241), section 3.1.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.simulate.parallel.pipeline.automatic import tuned_order
from lockstep.simulate.parallel.pipeline.schedule import Domain, Order, Schedule, register
from lockstep.simulate.parallel.pipeline.schedules import zero_bubble_h1
from lockstep.simulate.parallel.pipeline.times import Times


def makespan_s(stages: Number, microbatches: Number, chunks: Number, times: Times) -> Number:
    """Seconds of a step."""
    forward_s, input_s, weight_s = zero_bubble_h1.split_s(stages, times)
    work_s = microbatches * (forward_s + input_s + weight_s) + zero_bubble_h1.ends_s(stages, microbatches, times)
    shifted_s = work_s + (stages - 1) * (forward_s + times.delay_s(stages))
    return np.maximum(zero_bubble_h1.makespan_s(stages, microbatches, chunks, times), shifted_s)


def order(stages: int, microbatches: int, chunks: int = 1) -> Order:
    """The order for passes that all take equally long."""
    return tuned(stages, microbatches, Times(1.0, 2.0, 1.0, blocking=False))


def tuned(stages: int, microbatches: int, times: Times) -> Order:
    """The order for `times`."""
    return tuned_order(stages, microbatches, times, stages)


ZERO_BUBBLE_1P = register(
    Schedule(
        name="zb-1p",
        source="Qi et al. 2024 (arXiv 2401.10241), section 3.1",
        papers=("qi2024",),
        formula="m (f + i + w) + (p - 1) max(f + i - w, f)",
        exact="equal stages, w <= f and w <= i",
        domain=Domain(when=lambda p, m, f, i, w: w <= min(f, i), held=False, error_frac=(-0.1, 0.18)),
        makespan=makespan_s,
        stage=zero_bubble_h1.makespan_s,
        peak_live=zero_bubble_h1.peak_live,
        order=order,
        tuned=tuned,
    )
)
