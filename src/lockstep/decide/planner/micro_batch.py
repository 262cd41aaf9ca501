"""`with_micro_batch`: the micro-batch of a layout whose other fields are decided."""

from __future__ import annotations

from dataclasses import replace

from lockstep.decide.planner.batches import sized_with_others
from lockstep.decide.planner.robust import robust_order
from lockstep.decide.planner.search import NEAR_FRAC, Scored
from lockstep.decide.planner.space import MICRO_BATCHES
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import Job, Layout, broken_by


def with_micro_batch(job: Job, cluster: Cluster, layout: Layout) -> Layout | None:
    """`layout` with the micro-batch that the robust choice of a plan takes; None where none of them fits in memory."""
    sizes = [size for size in MICRO_BATCHES if job.recipe.batch % (layout.dp * size) == 0]
    allowed = [size for size in sizes if not broken_by(replace(layout, micro_batch=size), job)]
    if not allowed:
        return None
    priced = {
        replace(layout, micro_batch=size): found
        for size, found in sized_with_others(job, cluster, layout, allowed).items()
    }
    scored = [
        Scored(float(table.scores[0][at]), float(table.scores[1][at]), (0, 0, place), one)
        for place, (one, (table, at)) in enumerate(priced.items())
    ]
    fitting = [one for one in scored if one.memory_B <= cluster.device.memory_B]
    if not fitting:
        return None
    most_s = min(fitting).step_time_s * (1 + NEAR_FRAC)
    near = sorted(one for one in fitting if one.step_time_s <= most_s)
    if len(near) == 1:
        return near[0].layout
    ends = {one.layout: table.ends_at(at) for one in near for table, at in [priced[one.layout]]}
    return robust_order(cluster, near, ends)[0].layout
