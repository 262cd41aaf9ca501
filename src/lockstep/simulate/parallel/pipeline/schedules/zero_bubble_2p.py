"""Automatic zero bubble with twice the memory of 1F1B (ZB-2p): the order is searched for the times (`automatic.py`).

    stage_s  = m (f + i + w) + (p - 1) max(0, f + i - 2 w)      no bubble when f = i = w
    makespan = longest of stage_s and m (f + i + w) + (p - 1) f    the devices start one after another
    peak live micro-batches = min(m, 2p - 1) on every stage (activations held until W); the paper allows 2p

p stages, m micro-batches; f forward, i input-gradient and w weight-gradient part of the backward pass, in seconds. The
forms are those of zb-h2. Exact for equal stages with f = i = w and m >= 2p - 1, where no order found beats it; for
other passes the search shortens `stage_s`, and the forms are an estimate, as they are
with messages, heavier ends or fewer micro-batches.

Source: Qi et al. 2024, "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241), section 3.1.
"""

from __future__ import annotations

from lockstep.simulate.parallel.pipeline.automatic import tuned_order
from lockstep.simulate.parallel.pipeline.schedule import Domain, Order, Schedule, register
from lockstep.simulate.parallel.pipeline.schedules import zero_bubble_h2
from lockstep.simulate.parallel.pipeline.times import Times


def order(stages: int, microbatches: int, chunks: int = 1) -> Order:
    """The order for passes that all take equally long."""
    return tuned(stages, microbatches, Times(1.0, 2.0, 1.0, blocking=False))


def tuned(stages: int, microbatches: int, times: Times) -> Order:
    """The order for `times`, of those that hold no more than `peak_live` says."""
    return tuned_order(stages, microbatches, times, 2 * stages - 1)


ZERO_BUBBLE_2P = register(
    Schedule(
        name="zb-2p",
        source="Qi et al. 2024 (arXiv 2401.10241), section 3.1",
        papers=("qi2024",),
        formula="stage: m (f + i + w) + (p - 1) max(0, f + i - 2 w); makespan: at least m (f + i + w) + (p - 1) f",
        exact="equal stages, m >= 2p - 1, f = i = w",
        domain=Domain(when=lambda p, m, f, i, w: f == i == w and m >= 2 * p - 1, held=False, error_frac=(-0.1, 0.18)),
        makespan=zero_bubble_h2.makespan_s,
        stage=zero_bubble_h2.stage_s,
        peak_live=zero_bubble_h2.peak_live,
        order=order,
        tuned=tuned,
    )
)
