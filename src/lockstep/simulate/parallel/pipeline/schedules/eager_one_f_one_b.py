"""Eager 1F1B: 1F1B with 2 (p - s) - 1 forward passes of warm-up, so that messages hide behind the extra ones.

    makespan = (m + p - 1)(f + b) for equal stages, as 1F1B
             + 2 (p - 1) d with overlapped messages of d <= (f + b) / 2 seconds: paid once, where 1F1B pays all along
    peak live micro-batches = min(m, 2 (p - s) - 1): almost twice 1F1B

p stages, m micro-batches, s stage; f, b seconds of a forward and a backward pass. Exact for equal stages, also with a
heavier last one (sum of the stages + (m - 1) c_last); a heavier first stage is priced the same way, an upper bound.

Source: Zhuang et al. 2023, "On Optimizing the Communication of Model Parallelism" (arXiv 2211.05322), section 4.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.simulate.parallel.pipeline.schedule import Domain, Order, Schedule, register
from lockstep.simulate.parallel.pipeline.schedules.gpipe import flow_shop_s
from lockstep.simulate.parallel.pipeline.schedules.one_f_one_b import alternating
from lockstep.simulate.parallel.pipeline.times import Times


def makespan_s(stages: Number, microbatches: Number, chunks: Number, times: Times) -> Number:
    """Seconds of a step."""
    forward_s, backward_s = times.held(stages)
    straight_s = flow_shop_s(stages, microbatches, forward_s + backward_s, times.first_s, times.last_s)
    return straight_s + 2 * (stages - 1) * times.delay_s(stages)


def peak_live(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    """Micro-batches held at most by device `stage`."""
    return np.minimum(microbatches, 2 * (stages - stage) - 1)


def order(stages: int, microbatches: int, chunks: int = 1) -> Order:
    """Warm-up of 2 (p - s) - 1 forward passes on stage s, then B and F in turn."""
    return [alternating(microbatches, 2 * (stages - s) - 1) for s in range(stages)]


EAGER_ONE_F_ONE_B = register(
    Schedule(
        name="eager-1f1b",
        source="Zhuang et al. 2023 (arXiv 2211.05322), section 4",
        papers=("zhuang2023",),
        formula="(m + p - 1)(f + b) + 2 (p - 1) d; heavier last stage: sum c_s + (m - 1) c_last",
        exact="equal middle stages, heavier last stage, d <= (f + b) / 2; heavier first stage: upper bound",
        domain=Domain(ends=("last",), error_frac=(0.0, 0.25)),
        makespan=makespan_s,
        peak_live=peak_live,
        order=order,
    )
)
