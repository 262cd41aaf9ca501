"""`with_micro_batch`: the micro-batch of a layout whose other fields are decided."""

from __future__ import annotations

from dataclasses import replace

from lockstep.hardware import Cluster
from lockstep.layout import Job, Layout, broken_by
from lockstep.planner.estimate import estimates
from lockstep.planner.robust import robust_order
from lockstep.planner.search import NEAR_FRAC, Scored
from lockstep.planner.space import MICRO_BATCHES
from lockstep.planner.together import Together


def with_micro_batch(job: Job, cluster: Cluster, layout: Layout) -> Layout | None:
    """`layout` with the micro-batch that the robust choice of a plan takes; None where none of them fits in memory."""
    sizes = [size for size in MICRO_BATCHES if job.recipe.batch % size == 0]
    allowed = [one for size in sizes if not broken_by(one := replace(layout, micro_batch=size), job)]
    found = estimates(job, cluster, allowed)
    fitting = [
        Scored(one.step_time_s, float(one.memory.total_B), (0, 0, place), one.layout)
        for place, one in enumerate(found)
        if one.memory.fits
    ]
    if not fitting:
        return None
    most_s = min(fitting).step_time_s * (1 + NEAR_FRAC)
    near = sorted(one for one in fitting if one.step_time_s <= most_s)
    ends = Together(job, cluster, [one.layout for one in near]).ends
    return robust_order(cluster, near, ends)[0].layout
