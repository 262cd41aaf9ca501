"""Zero-bubble H1: 1F1B with the weight gradients split off and moved to where devices would wait; memory of 1F1B.

    makespan = m (f + i + w) + (p - 1)(f + i - w)                        m >= p
             = longest of (m + p - 1)(f + i) + max(1, m - p + 1) w  and  m (f + i + w) + (p - 1) i + max(0, p - m) f
    peak live micro-batches = min(m, p) on every stage (activations held until W)

p stages, m micro-batches; f forward, i input-gradient part and w weight-gradient part of the backward pass, in seconds
(B and W of the paper are our i and w). Exact for equal stages with w <= f and w <= i. Overlapped messages of d seconds
add 4 (p - 1) d, exact in the same range for m >= 2p and short d. Heavier ends x: + x_first + x_last + (m - 1) max x, an
estimate.

Source: Qi et al. 2024, "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241), section 2.1, figure 2 and table 2.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.simulate.parallel.pipeline.schedule import Domain, Order, Pass, Schedule, register
from lockstep.simulate.parallel.pipeline.times import Times


def makespan_s(stages: Number, microbatches: Number, chunks: Number, times: Times) -> Number:
    """Seconds of a step."""
    p, m = stages, microbatches
    forward_s, input_s, weight_s = split_s(p, times)
    pace_s = (m + p - 1) * (forward_s + input_s) + np.maximum(1, m - p + 1) * weight_s
    work_s = m * (forward_s + input_s + weight_s) + (p - 1) * input_s + np.maximum(0, p - m) * forward_s
    return np.maximum(pace_s, work_s) + 4 * (p - 1) * times.delay_s(p) + ends_s(p, m, times)


def split_s(stages: Number, times: Times, chunks: Number = 1) -> tuple[Number, Number, Number]:
    """(forward, input-gradient, weight-gradient) seconds of a middle device, with the time its messages hold it."""
    forward_s, backward_s = times.held(stages, chunks)
    return forward_s, backward_s - times.weight_part_s, times.weight_part_s


def ends_s(stages: Number, microbatches: Number, times: Times) -> Number:
    """Seconds added by a heavier first and last device: once each on the way, then the heavier one per micro-batch."""
    heavier_s = np.where(np.equal(stages, 1), times.first_s + times.last_s, np.maximum(times.first_s, times.last_s))
    return times.first_s + times.last_s + (microbatches - 1) * heavier_s


def peak_live(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    """Micro-batches held at most by a device."""
    return np.minimum(microbatches, stages) + 0 * stage


def order(stages: int, microbatches: int, chunks: int = 1) -> Order:
    """Warm-up of 1F1B; stage s runs W of a micro-batch s backward passes late, which keeps p micro-batches alive."""
    return [split_lane(microbatches, warmup=stages - s, late=s) for s in range(stages)]


def split_lane(microbatches: int, warmup: int, late: int) -> list[Pass]:
    """`warmup` forward passes, then I, W of `late` micro-batches before, F in turn; then what is left of W."""
    ahead = min(warmup, microbatches)
    lane = [("F", i, 0) for i in range(ahead)]
    for i in range(microbatches):
        lane.append(("I", i, 0))
        if i >= late:
            lane.append(("W", i - late, 0))
        if ahead + i < microbatches:
            lane.append(("F", ahead + i, 0))
    return lane + [("W", i, 0) for i in range(max(0, microbatches - late), microbatches)]


ZERO_BUBBLE_H1 = register(
    Schedule(
        name="zb-h1",
        source="Qi et al. 2024 (arXiv 2401.10241), section 2.1",
        papers=("qi2024",),
        formula="m (f + i + w) + (p - 1)(f + i - w)",
        exact="equal stages, w <= f and w <= i",
        domain=Domain(when=lambda p, m, f, i, w: w <= min(f, i), held=False, error_frac=(-0.1, 0.18)),
        makespan=makespan_s,
        peak_live=peak_live,
        order=order,
    )
)
