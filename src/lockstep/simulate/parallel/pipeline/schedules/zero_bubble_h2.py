"""Zero-bubble H2: a longer warm-up and late weight gradients fill every gap; memory of almost twice 1F1B.

    stage_s  = m (f + i + w) + (p - 1) max(0, f + i - 2 w)      no bubble when f = i = w
    makespan = longest of stage_s and m (f + i + w) + (p - 1) f    the devices start one after another, and end so
    peak live micro-batches = min(m, 2p - 1) on every stage (activations held until W)

p stages, m micro-batches; f forward, i input-gradient and w weight-gradient part of the backward pass, in seconds.
Exact for equal stages with m >= 2p - 1, w <= f and w <= i. The bubble vanishes from `stage_s` only: to use that as
the step time the optimizer must not wait for all devices (the paper's post-validation). Overlapped messages of d
seconds add 2 (p - 1) d, an estimate; heavier ends as in zb-h1, an estimate.

Source: Qi et al. 2024, "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241), section 2.2, figure 3 and table 2.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.simulate.parallel.pipeline.schedule import Domain, Order, Schedule, register
from lockstep.simulate.parallel.pipeline.schedules.zero_bubble_h1 import ends_s, split_lane, split_s
from lockstep.simulate.parallel.pipeline.times import Times


def makespan_s(stages: Number, microbatches: Number, chunks: Number, times: Times) -> Number:
    """Seconds of a step."""
    forward_s, input_s, weight_s = split_s(stages, times)
    shifted_s = microbatches * (forward_s + input_s + weight_s) + (stages - 1) * forward_s
    shifted_s = shifted_s + ends_s(stages, microbatches, times) + 2 * (stages - 1) * times.delay_s(stages)
    return np.maximum(stage_s(stages, microbatches, chunks, times), shifted_s)


def stage_s(stages: Number, microbatches: Number, chunks: Number, times: Times) -> Number:
    """Seconds of the busiest device from its own start to its own end."""
    p, m = stages, microbatches
    forward_s, input_s, weight_s = split_s(p, times)
    pace_s = (m + p - 1) * (forward_s + input_s) + np.maximum(1, m - 2 * p + 2) * weight_s
    work_s = m * (forward_s + input_s + weight_s)
    return np.maximum(pace_s, work_s) + 2 * (p - 1) * times.delay_s(p) + ends_s(p, m, times)


def peak_live(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    """Micro-batches held at most by a device."""
    return np.minimum(microbatches, 2 * stages - 1) + 0 * stage


def order(stages: int, microbatches: int, chunks: int = 1) -> Order:
    """Stage s warms up with 2 (p - s) - 1 forward passes and runs W 2s backward passes late."""
    return [split_lane(microbatches, warmup=2 * (stages - s) - 1, late=2 * s) for s in range(stages)]


ZERO_BUBBLE_H2 = register(
    Schedule(
        name="zb-h2",
        source="Qi et al. 2024 (arXiv 2401.10241), section 2.2",
        papers=("qi2024",),
        formula="stage: m (f + i + w) + (p - 1)(f + i - 2 w); makespan: at least m (f + i + w) + (p - 1) f",
        exact="equal stages, m >= 2p - 1, w <= f and w <= i",
        domain=Domain(
            when=lambda p, m, f, i, w: w <= min(f, i) and m >= 2 * p - 1, held=False, error_frac=(-0.15, 0.18)
        ),
        makespan=makespan_s,
        stage=stage_s,
        peak_live=peak_live,
        order=order,
    )
)
