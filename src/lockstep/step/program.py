"""The step as a `Program`: one rank per pipeline stage, standing for the dp*tp*cp ranks that do the same.

Every pass of the schedule is a compute operation that lasts as long as its kernels and the traffic it waits for. Then
comes what data parallelism leaves exposed, as one collective, transfers with the host, the optimizer step and the
host's own time. Simulated, it takes what `step_time_s` says: exactly where the schedule's closed form is exact (see
there), no longer elsewhere.
"""

from __future__ import annotations

import numpy as np

from lockstep.hardware import Cluster
from lockstep.layout import Job, Layout
from lockstep.parallel.pipeline import get, lanes, write
from lockstep.program import Program, ProgramBuilder
from lockstep.step.step import compose


def step_program(job: Job, cluster: Cluster, layout: Layout) -> Program:
    """One optimizer step of `layout` as a program with `layout.pp` ranks."""
    parts = compose(job, cluster, layout.grid())
    schedule, stages = get(layout.schedule), range(layout.pp)
    order = schedule.order(layout.pp, int(parts.microbatches), layout.vpp)
    builder = ProgramBuilder(layout.pp, lanes(layout.vpp))
    cells = schedule.cells(layout.pp, int(parts.microbatches), layout.vpp) if schedule.cells else None
    last = write(builder, schedule, order, layout.vpp, parts.times(), cells=cells)
    reduced = builder.collective(
        stages, "all-reduce", 0.0, duration_s=float(np.asarray(parts.once_s)), label="gradients", stream="compute"
    )
    builder.depend(list(reduced), last)
    host_s = float(np.asarray(parts.host_once_s))
    for stage in stages:
        ready = reduced[stage]
        if host_s:
            ready = builder.compute(stage, host_s, label="host transfers", after=ready)
        builder.compute(stage, float(np.asarray(parts.update_s)), label="optimizer", after=ready)
        builder.compute(stage, parts.fixed_s, label="host")
    return builder.build()
