"""The step as a `Program`: one rank per pipeline stage, standing for the dp*tp*cp ranks that do the same.

Every pass is written as `passes.py` says: kernels on lane `compute`, each kind of traffic on a lane of its own, one
operation for all of a pass. What comes once per step stands beside the last backward pass where this is one whole pass,
else its exposed part behind it; then the ranks agree on the norm of the gradients, states pass between device and host,
and parameters are updated, averaged with groups that train apart, and gathered. A gather of updated parameters runs on
beside the first forward pass of the next step: the part that is waited for is at the end, the rest beside the first
pass. Simulated, a step takes what `step_time_s` says: exactly where the schedule's closed form is exact (see there), no
longer elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from lockstep.hardware import Cluster
from lockstep.layout import Job, Layout, process_groups, stage_memory
from lockstep.parallel.group import Levels
from lockstep.parallel.messages import GroupOf, with_messages
from lockstep.parallel.pipeline import Placement, get, lanes, write
from lockstep.parallel.pipeline.schedule import Order, Schedule
from lockstep.parallel.pipeline.schedule import Pass as Turn
from lockstep.parallel.script import GRADIENTS, LANES
from lockstep.program import Program, ProgramBuilder, Timeline
from lockstep.simulate import simulate
from lockstep.step.network import Network
from lockstep.step.passes import StepPasses, step_passes
from lockstep.step.step import compose


def step_program(job: Job, cluster: Cluster, layout: Layout, by_layer: bool = False) -> Program:
    """One optimizer step of `layout` as a program with `layout.pp` ranks, its passes layer by layer if asked."""
    parts = compose(job, cluster, layout.grid())
    schedule, microbatches = get(layout.schedule), int(parts.microbatches)
    order = schedule.order(layout.pp, microbatches, layout.vpp)
    known = step_passes(job, cluster, layout, parts)
    passes = replace(known, last=_last(schedule, order, layout), by_layer=by_layer)
    builder = ProgramBuilder(layout.pp, lanes(layout.vpp, LANES))
    _gather(builder, passes, float(np.asarray(parts.around.moved.gather_s - parts.waits.gather_s)), [[]] * layout.pp)
    cells = schedule.cells(layout.pp, microbatches, layout.vpp) if schedule.cells else None
    ends = write(
        builder, schedule, order, layout.vpp, passes.times, cells=cells, scripts=passes,
        activation_B=activations_B(job, cluster, layout),
    )  # fmt: skip
    _update(builder, passes, ends)
    return builder.build()


def _last(schedule: Schedule, order: Order, layout: Layout) -> frozenset[Turn]:
    """The backward pass of all layers that every device ends with, if there is one."""
    found = frozenset(lane[-1] for lane in order)
    whole = schedule.placement is Placement.LOOPED and layout.vpp == 1 and not schedule.cells
    return found if whole and len(found) == 1 and all(step == "B" for step, _, _ in found) else frozenset()


def _traffic(
    builder: ProgramBuilder, op: str, size_B: float, seconds: float, ends: list[list[int]], label: str, lane: str
) -> list[list[int]]:
    """Traffic of every stage by itself, behind its `ends`; returns what ends it."""
    return [
        list(builder.collective([stage], op, size_B, duration_s=seconds, label=label, stream=lane, after=after))
        for stage, after in enumerate(ends)
    ]


def _gather(builder: ProgramBuilder, passes: StepPasses, seconds: float, ends: list[list[int]]) -> list[list[int]]:
    """A part of the gather of updated parameters on every stage, behind its `ends`."""
    if not np.any(np.asarray(passes.parts.waits.gather_s)) or seconds <= 0:
        return ends
    size_B = passes.parts.around.parameter_B * seconds / float(np.asarray(passes.parts.around.moved.gather_s))
    return _traffic(builder, "all-gather", float(size_B), seconds, ends, passes.name("dp", "all-gather"), "dp")


def _update(builder: ProgramBuilder, passes: StepPasses, ends: list[list[int]]) -> None:
    """What follows the passes: gradients, their norm, the host's share, the update, new parameters, the host's own."""
    parts, stages = passes.parts, range(builder.ranks)
    reduce_s, host_s, update_s, gather_s = (
        float(np.asarray(each))
        for each in (parts.waits.reduce_s, parts.around.host.once_s, parts.update_s, parts.waits.gather_s)
    )
    if not passes.last and reduce_s > 0:
        flow = passes.parts.around.once
        ends = _traffic(builder, flow.op, float(flow.size_B), reduce_s, ends, passes.name("dp", flow.op), GRADIENTS)
    norm = builder.barrier(stages, after=[one for each in ends for one in each], stream=GRADIENTS, label="norm")
    ends = [[one] for one in norm]
    if host_s > 0:
        ends = _traffic(builder, "copy", 0.0, host_s, ends, "host copy", "host")
    ends = [[builder.compute(stage, update_s, label="optimizer", after=ends[stage])] for stage in stages]
    if outer := float(np.asarray(parts.waits.outer_s)):
        flow, label = passes.parts.around.outer, passes.name("dp", "outer all-reduce")
        ends = _traffic(builder, flow.op, float(flow.size_B), outer, ends, label, "dp")
    ends = _gather(builder, passes, gather_s, ends)
    for stage in stages:
        builder.compute(stage, parts.fixed_s, label="host", after=ends[stage])


def activations_B(job: Job, cluster: Cluster, layout: Layout) -> list[float]:
    """Bytes that each stage holds of a micro-batch between its passes."""
    schedule, m = get(layout.schedule), layout.grid().microbatches(job.recipe.batch)
    live = [float(schedule.peak_live(layout.pp, m, layout.vpp, stage)) for stage in range(layout.pp)]
    held = [stage_memory(job, cluster, layout.grid(), stage) for stage in range(layout.pp)]
    return [float(one.activations_B) / most if most else 0.0 for one, most in zip(held, live, strict=True)]


def _groups(cluster: Cluster, layout: Layout) -> GroupOf:
    """The groups of rank 0, by part and collective. Shard groups gather and scatter; only copies are summed across."""
    network = Network(cluster, layout.grid())

    def group_of(part: str, op: str) -> tuple[Levels, list[int]]:
        shard = layout.shard and op != "all-reduce"
        if part != "dp":
            return network.levels(part), process_groups(layout, part)[0]
        return (network.data.shard if shard else network.data.whole), process_groups(
            layout, "shard" if shard else "data"
        )[0]

    return group_of


def step_timeline(
    job: Job, cluster: Cluster, layout: Layout, by_layer: bool = False, opened: Collection[str] = ()
) -> Timeline:
    """The step simulated, with the bytes that each stage holds all the time.

    Collectives of the parts `opened` are written with their own sends (`parallel/messages.py`).
    """
    program, members = step_program(job, cluster, layout, by_layer), list[int]()
    if opened:
        program, members = with_messages(program, _groups(cluster, layout), opened)
    held = [stage_memory(job, cluster, layout.grid(), stage) for stage in range(layout.pp)]
    names = ("parameters", "gradients", "optimizer", "buffers")
    held_B = {name: (*(float(getattr(one, f"{name}_B")) for one in held), *(0.0 for _ in members)) for name in names}
    called = (*(f"stage {stage}" for stage in range(layout.pp)), *(f"rank {rank} of stage 0" for rank in members))
    return replace(simulate(program), held_B=held_B, rank_names=called)
