"""GPipe: all forward passes, then all backward passes.

    makespan = [sum_s f_s + (m - 1) max_s f_s] + [sum_s b_s + (m - 1) max_s b_s]     exact for any stage times
             = (m + p - 1)(f + b) for equal stages: bubble share (p - 1) / (m + p - 1)
    peak live micro-batches = m on every stage

p stages, m micro-batches, f_s and b_s seconds of stage s. Each half is a flow shop with the same order on every stage.
Overlapped messages add 2 (p - 1) transfers.

Source: Huang et al. 2019, "GPipe" (arXiv 1811.06965), section 2.3. Backward passes run in the order of the forward
ones, as in torch.distributed.pipelining; the paper's figure runs them in reverse, with the same makespan.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.simulate.parallel.pipeline.schedule import Domain, Order, Schedule, register
from lockstep.simulate.parallel.pipeline.times import Times


def makespan_s(stages: Number, microbatches: Number, chunks: Number, times: Times) -> Number:
    """Seconds of a step."""
    forward_s, backward_s = times.held(stages)
    down_s = flow_shop_s(stages, microbatches, forward_s, times.first_forward_s, times.last_forward_s)
    up_s = flow_shop_s(stages, microbatches, backward_s, times.first_backward_s, times.last_backward_s)
    return down_s + up_s + 2 * (stages - 1) * times.delay_s(stages)


def flow_shop_s(stages: Number, jobs: Number, middle_s: Number, first_s: Number, last_s: Number) -> Number:
    """Seconds for `jobs` equal jobs through stages in a row: the sum of the stages plus jobs - 1 times the slowest."""
    slowest_s = np.where(np.equal(stages, 1), first_s + last_s, np.maximum(first_s, last_s))
    return stages * middle_s + first_s + last_s + (jobs - 1) * (middle_s + slowest_s)


def peak_live(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    """Micro-batches held at most by a device."""
    return microbatches + 0 * (stages + stage)


def order(stages: int, microbatches: int, chunks: int = 1) -> Order:
    """All F, then all B."""
    lane = [(step, i, 0) for step in "FB" for i in range(microbatches)]
    return [list(lane) for _ in range(stages)]


GPIPE = register(
    Schedule(
        name="gpipe",
        source="Huang et al. 2019 (arXiv 1811.06965), section 2.3",
        papers=("huang2019",),
        formula="sum f_s + (m - 1) max f_s + sum b_s + (m - 1) max b_s; equal stages: (m + p - 1)(f + b)",
        exact="always",
        domain=Domain(ends=("first", "last"), overlapped=True),
        makespan=makespan_s,
        peak_live=peak_live,
        order=order,
    )
)
