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

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import Job, Layout, Memory, chunk_activations_B, live_B, process_groups, stage_memory
from lockstep.price.step.network import Network
from lockstep.price.step.passes import GENERATION, WAITING, StepPasses, step_passes
from lockstep.price.step.step import compose, priced
from lockstep.simulate.parallel.group import Levels
from lockstep.simulate.parallel.messages import GroupOf, with_messages
from lockstep.simulate.parallel.piece import Flow
from lockstep.simulate.parallel.pipeline import Placement, get, lanes, write
from lockstep.simulate.parallel.pipeline.schedule import Order, Schedule
from lockstep.simulate.parallel.pipeline.schedule import Pass as Turn
from lockstep.simulate.parallel.script import GRADIENTS, LANES
from lockstep.simulate.play import simulate
from lockstep.simulate.program import Program, ProgramBuilder, Timeline


def step_program(job: Job, cluster: Cluster, layout: Layout, by_layer: bool = False) -> Program:
    """One optimizer step of `layout` as a program with `layout.pp` ranks, its passes layer by layer if asked."""
    parts = compose(job, cluster, layout.grid())
    schedule, microbatches = get(layout.schedule), int(parts.microbatches)
    known = step_passes(job, cluster, layout, parts)
    order = schedule.order_for(layout.pp, microbatches, layout.vpp, known.times)
    passes = replace(known, last=_last(schedule, order, layout), by_layer=by_layer)
    whole = priced(parts, layout.grid())
    waiting_s = float(np.asarray(whole.waiting_s))
    builder = ProgramBuilder(layout.pp, lanes(layout.vpp, (*LANES, WAITING) if waiting_s else LANES))
    early = [float(np.asarray(one.around.renewed.seconds - one.waits.gather_s)) for one in passes.devices]
    _gather(builder, passes, early, [[]] * layout.pp)
    cells = schedule.cells(layout.pp, microbatches, layout.vpp) if schedule.cells else None
    ends = write(
        builder, schedule, order, layout.vpp, passes.times, cells=cells, scripts=passes,
        activation_B=activations_B(job, cluster, layout),
    )  # fmt: skip
    _update(builder, passes, ends, waiting_s, float(np.asarray(whole.generation_s)))
    return builder.build()


def _last(schedule: Schedule, order: Order, layout: Layout) -> frozenset[Turn]:
    """The backward pass of all layers that every device ends with, if there is one."""
    found = frozenset(lane[-1] for lane in order)
    whole = schedule.placement is Placement.LOOPED and layout.vpp == 1 and not schedule.cells
    return found if whole and len(found) == 1 and all(step == "B" for step, _, _ in found) else frozenset()


def _traffic(
    builder: ProgramBuilder, flows: Sequence[Flow], ends: list[list[int]], label: str, lane: str
) -> list[list[int]]:
    """Traffic of every stage by itself, where there is any, behind its `ends`; returns what ends it."""
    return [
        list(
            builder.collective(
                [stage], flow.op, float(flow.size_B), duration_s=float(flow.seconds), label=label, stream=lane,
                after=after,
            )
        )
        if flow.seconds > 0
        else after
        for stage, (flow, after) in enumerate(zip(flows, ends, strict=True))
    ]  # fmt: skip


def _gather(
    builder: ProgramBuilder, passes: StepPasses, seconds: Sequence[float], ends: list[list[int]]
) -> list[list[int]]:
    """A part of the gather of updated parameters on every stage, behind its `ends`."""
    flows = []
    for one, part_s in zip(passes.devices, seconds, strict=True):
        part_s = part_s if np.any(np.asarray(one.waits.gather_s)) else 0.0
        whole = one.around.renewed
        size_B = whole.size_B * part_s / float(np.asarray(whole.seconds)) if part_s > 0 else 0.0
        flows.append(Flow("all-gather", "dp", size_B, part_s))
    return _traffic(builder, flows, ends, passes.name("dp", "all-gather"), "dp")


def _update(
    builder: ProgramBuilder, passes: StepPasses, ends: list[list[int]], waiting_s: float, generation_s: float
) -> None:
    """What follows the passes: gradients, their norm, for which all ranks wait `waiting_s` for slower ones, the host's
    share, the update, new parameters, the host's own, and what is generated for the next step.
    """
    stages, devices = range(builder.ranks), passes.devices
    if not passes.last:
        for flows in zip(*(one.exposed_once for one in devices), strict=True):
            ends = _traffic(builder, flows, ends, passes.name(flows[0].group, flows[0].op), GRADIENTS)
    norm = builder.barrier(stages, after=[one for each in ends for one in each], stream=GRADIENTS, label="norm")
    ends = [[one] for one in norm]
    if waiting_s > 0:
        late = [builder.compute(stage, waiting_s, label="slower ranks", stream=WAITING, after=norm) for stage in stages]
        ends = [[one] for one in late]
    copies = [Flow("copy", "host", 0.0, float(np.asarray(one.around.host.once_s))) for one in devices]
    ends = _traffic(builder, copies, ends, "host copy", "host")
    updates_s = [float(np.asarray(one.update_s)) for one in devices]
    ends = [[builder.compute(stage, updates_s[stage], label="optimizer", after=ends[stage])] for stage in stages]
    outer = [replace(one.around.outer, seconds=float(np.asarray(one.waits.outer_s))) for one in devices]
    ends = _traffic(builder, outer, ends, passes.name("dp", "outer all-reduce"), "dp")
    ends = _gather(builder, passes, [float(np.asarray(one.waits.gather_s)) for one in devices], ends)
    for stage in stages:
        fixed = builder.compute(stage, passes.parts.fixed_s, label="host", after=ends[stage])
        if generation_s:
            builder.compute(stage, generation_s, label=GENERATION, after=[fixed])


def activations_B(job: Job, cluster: Cluster, layout: Layout) -> Array:
    """Bytes that each stage, or each of its chunks, holds of a micro-batch between its passes."""
    if layout.stages:
        return np.array([chunk_activations_B(job, layout.grid(), stage) for stage in range(layout.pp)])
    schedule, m = get(layout.schedule), layout.grid().microbatches(job.recipe.batch)
    live = [float(schedule.peak_live(layout.pp, m, layout.vpp, stage)) for stage in range(layout.pp)]
    held = [stage_memory(job, cluster, layout.grid(), stage) for stage in range(layout.pp)]
    return np.array([float(one.activations_B) / most if most else 0.0 for one, most in zip(held, live, strict=True)])


def _passing_B(job: Job, layout: Layout, held: Sequence[Memory]) -> list[float]:
    """Bytes of activations that each stage holds all the time, of layers placed by hand: what no chunk keeps."""
    grid, found = layout.grid(), []
    for stage, one in enumerate(held):
        lives_B = live_B(job, grid, stage, chunk_activations_B(job, grid, stage))
        found.append(max(0.0, float(one.activations_B) - float(lives_B)))
    return found


def _groups(cluster: Cluster, layout: Layout) -> GroupOf:
    """The groups of rank 0, by part and collective. Shard groups gather and scatter; only copies are summed across."""
    network = Network(cluster, layout.grid())

    def group_of(part: str, op: str) -> tuple[Levels, list[int]]:
        shard = layout.shard and op != "all-reduce"
        if part == "dp" and layout.shard and layout.zero and not shard:
            return network.data.replicas, process_groups(layout, "copies")[0]
        if part != "dp":
            name = "etp" if part == "ep" and op != "all-to-all" else part
            return network.levels(name), process_groups(layout, name)[0]
        return (network.data.shard if shard else network.data.whole), process_groups(
            layout, "shard" if shard else "data"
        )[0]

    return group_of


def step_timeline(
    job: Job, cluster: Cluster, layout: Layout, by_layer: bool = False, opened: Collection[str] = ()
) -> Timeline:
    """The step simulated, with the bytes that each stage holds all the time.

    Collectives of the parts `opened` are written with their own sends (`simulate/parallel/messages.py`).
    """
    program, members = step_program(job, cluster, layout, by_layer), list[int]()
    if opened:
        program, members = with_messages(program, _groups(cluster, layout), opened)
    held = [stage_memory(job, cluster, layout.grid(), stage) for stage in range(layout.pp)]
    names, others = ("parameters", "gradients", "optimizer", "buffers"), [f"rank {rank} of stage 0" for rank in members]
    others += [f"switch {i + 1}" for i in range(program.ranks - layout.pp - len(members))]
    held_B = {name: (*(float(getattr(one, f"{name}_B")) for one in held), *(0.0 for _ in others)) for name in names}
    if layout.stages:
        held_B["passing"] = (*_passing_B(job, layout, held), *(0.0 for _ in others))
    called = (*(f"stage {stage}" for stage in range(layout.pp)), *others)
    return replace(simulate(program), held_B=held_B, rank_names=called)
