"""`Step`: one optimizer step of a job on a cluster, for a layout or a whole grid of layouts with one stage count.

    step = pipeline makespan + exposed data-parallel and host traffic + optimizer + fixed host time

A stage's pass takes its kernels (`lockstep.kernels`) and what they wait for of tensor, context, expert, data-parallel
and host traffic (`lockstep.parallel`). The pipeline's closed form turns stage times into a makespan; `program.py`
builds the same step as a Program, and the simulation gives the same time. A device of a folded pipeline counts as one
stage; of two copies of the model, each stage is one. Stages are priced as if each held as much as the heaviest one,
which is exact when layers divide evenly.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, fields

import numpy as np

from lockstep.hardware import Cluster
from lockstep.kernels.clock import Clock
from lockstep.kernels.convolution import convolution_work
from lockstep.kernels.layer import Shard, accumulation_work, embedding_work, head_work, prediction_module_work
from lockstep.kernels.optimizer import optimizer_s, outer_update_s, updated, updated_B
from lockstep.layout import (
    KEEP,
    OFFLOAD_PARAMETERS,
    Job,
    LayerKind,
    LayoutGrid,
    Recipe,
    gradients_leave,
    layer_parameters,
    sharing_of,
    stage_parameters,
)
from lockstep.parallel.data.around import Around, Exposed
from lockstep.parallel.data.offload import HostTraffic, host_traffic
from lockstep.parallel.data.zero import Kernels, traffic
from lockstep.parallel.group import share_links
from lockstep.parallel.pipeline import Placement, Times, cells_by_code, codes_where, makespan_by_code_s
from lockstep.parallel.pipeline.handover import handover_s
from lockstep.step.network import DATA, Network
from lockstep.step.stage import StageTimes, layer_times, part_times
from lockstep.types.arrays import Bools, Number, Whole
from lockstep.workload import RankParameters

PARTS = ("compute", "tp_comm", "pp_comm", "dp_comm", "ep_comm", "cp_comm", "host_comm", "bubble", "optimizer", "other")
BUCKET_B = 25 * 2.0**20
"""Gradients of small layers travel together: PyTorch's DistributedDataParallel gathers 25 MiB (arXiv 2006.15704)."""
ROUNDING_FRAC = 1e-12
"""Idle time below this share of the makespan is what is left of subtracting equal sums."""


@dataclass(frozen=True, slots=True)
class Step:
    """Seconds of a step by part (arrays when the layout is a grid). PARTS add up to `step_time_s`."""

    compute_s: Number
    tp_comm_s: Number
    pp_comm_s: Number
    dp_comm_s: Number
    ep_comm_s: Number
    cp_comm_s: Number
    host_comm_s: Number
    bubble_s: Number
    optimizer_s: Number
    other_s: Number
    ep_hidden_s: Number = 0.0
    """Of the experts' exchange, what runs beside computing: no part of the step time."""

    @property
    def step_time_s(self) -> Number:
        """The whole step."""
        total_s: Number = sum(getattr(self, f"{part}_s") for part in PARTS)
        return total_s

    def breakdown_s(self) -> dict[str, float]:
        """Seconds by part, of one layout."""
        return {part: float(getattr(self, f"{part}_s")) for part in PARTS}

    @property
    def bound_by(self) -> str:
        """The largest part, of one layout."""
        parts = self.breakdown_s()
        return max(PARTS, key=lambda part: parts[part])


@dataclass(frozen=True, slots=True)
class Composition:
    """What a step is made of, before the pipeline puts it in order: the input of the closed form and of the Program."""

    stages: int
    microbatches: Whole
    body: StageTimes
    """One micro-batch on the heaviest stage's layers."""
    first: StageTimes
    """What the first stage takes more than the body."""
    last: StageTimes
    """What the last stage takes more than the body."""
    around: Around
    """Data-parallel traffic and that with the host."""
    waits: Exposed
    """What passes and the step wait for it."""
    transfer_s: Number
    update_s: Number
    fixed_s: float
    blocking: bool
    copies: int
    """Copies of the model in the pipeline, which a device serves in turn."""
    hides_ep: bool
    """Whether the experts' exchange of a pass runs beside the other pass of a cell."""
    ep_device_frac: float
    beside_ep_s: Number
    """Other traffic of a forward and a backward pass on links of the experts' exchange."""

    def times(self) -> Times:
        """Stage times as the pipeline formulas take them."""
        exchange_s = self.exchange_in_cells() if self.hides_ep else (0.0, 0.0)
        return Times(
            forward_s=self.body.forward_s + self.waits.forward_s + self.waits.host_forward_s,
            backward_s=self.body.backward_s + self.waits.backward_s + self.waits.host_backward_s,
            weight_s=self.body.weight_s,
            transfer_s=self.transfer_s,
            blocking=self.blocking,
            first_forward_s=self.first.forward_s,
            first_backward_s=self.first.backward_s,
            last_forward_s=self.last.forward_s,
            last_backward_s=self.last.backward_s,
            forward_comm_s=exchange_s[0],
            backward_comm_s=exchange_s[1],
            comm_device_frac=self.ep_device_frac,
        )

    def exchange_in_cells(self) -> tuple[Number, Number]:
        """(forward, backward) seconds of the exchange that a cell may run beside computing.

        Of x seconds beside c, with t seconds of other traffic on the same links, a cell takes max(x + t, c + share x):
        what of x then lies in the open is left out here.
        """
        found = self.body.ep_forward_s, self.body.ep_backward_s
        if not np.any(self.beside_ep_s):
            return found
        all_s, waits_s = found[0] + found[1], self.waits.forward_s + self.waits.backward_s
        computing_s = self.body.total_s - all_s + waits_s + self.waits.host_s
        most_s = np.maximum(0.0, computing_s - self.beside_ep_s) / (1.0 - self.ep_device_frac)
        kept = np.where(self.beside_ep_s > 0, np.minimum(1.0, most_s / np.where(all_s > 0, all_s, 1.0)), 1.0)
        return found[0] * kept, found[1] * kept

    @property
    def extra(self) -> StageTimes:
        """What the most loaded device takes more than the body."""
        if self.stages == 1 or self.copies == 2:
            return (self.first + self.last) * (1.0 / self.copies)
        return self.first.where(self.first.total_s >= self.last.total_s, self.last)


def compose(job: Job, cluster: Cluster, grid: LayoutGrid) -> Composition:
    """The parts of a step for every layout of `grid`, which must share stages and placement. Raises BadInput if not."""
    clock = Clock(cluster.device, job.recipe.dtype, job.recipe.element_B)
    network = Network(cluster, grid)
    body, first, last = _stage_times(job, grid, clock, network)
    held = _fullest(job, grid)
    around = _around(job, cluster, network, held, body)
    waits = around.waits
    update_s = optimizer_s(clock, grid, job.recipe, held, job.hidden)
    outer_s = outer_update_s(clock, grid, job.recipe, held) if job.recipe.local_steps > 1 else 0.0
    return Composition(
        stages=grid.stages,
        microbatches=grid.microbatches(job.recipe.batch),
        body=body,
        first=first,
        last=last,
        around=around,
        waits=waits,
        transfer_s=_transfer(job, grid, clock, network) if grid.stages > 1 else 0.0,
        update_s=np.where(grid.offload == KEEP, update_s, around.host.update_s) + outer_s,
        fixed_s=cluster.device.efficiency.step_s,
        blocking=not job.recipe.overlap_pp,
        copies=grid.copies,
        hides_ep=job.recipe.overlap_ep == "cells",
        ep_device_frac=job.recipe.overlap_device_frac,
        beside_ep_s=_beside_exchange(network, body, waits) if job.num_experts else 0.0,
    )


def _around(job: Job, cluster: Cluster, network: Network, held: RankParameters, body: StageTimes) -> Around:
    """Traffic around the passes of the stage that holds most."""
    grid, recipe = network.grid, job.recipe
    dense, expert = held.matrix_elems + held.other_elems, held.expert_elems
    bytes_each, layers = (recipe.parameter_B, recipe.wire_B), grid.copies * _pieces(job, grid.stages, held)
    sharing = sharing_of(recipe, grid)
    moved = traffic(network.data, grid.zero, sharing, (dense, expert), *bytes_each, layers, recipe.overlap_dp)
    host = _host_traffic(cluster, grid, recipe, held) if np.any(grid.offload != KEEP) else HostTraffic()
    parameter_B, gradient_B = ((dense + expert) * each_B for each_B in bytes_each)
    kernels = _kernels(job, grid, body)
    steps = recipe.local_steps
    return Around(sharing, moved, kernels, layers, recipe.overlap_dp, parameter_B, gradient_B, host, steps)


def _beside_exchange(network: Network, body: StageTimes, waiting: Exposed) -> Number:
    """Seconds of a forward and a backward pass in which the links of the experts' exchange carry other traffic."""
    data = network.levels(*DATA)
    tensor_s = np.where(share_links(network.levels("tp"), data), body.tp_forward_s + body.tp_backward_s, 0.0)
    context_s = np.where(share_links(network.levels("cp"), data), body.cp_forward_s + body.cp_backward_s, 0.0)
    hidden_s = body.hidden_forward_s + body.hidden_backward_s
    return tensor_s + context_s + hidden_s + waiting.forward_s + waiting.backward_s


def _kernels(job: Job, grid: LayoutGrid, body: StageTimes) -> Kernels:
    """Kernels of the passes that data-parallel traffic may hide behind, of all copies together.

    The experts' exchange hides beside shared experts, or in a cell beside the kernels of the other pass. That leaves
    less for traffic that comes with every micro-batch, as all does where there is one.
    """
    kernels_s = body.compute_forward_s, body.compute_backward_s
    taken_s = body.hidden_forward_s, body.hidden_backward_s
    exchange_s: list[Number] = [0.0, 0.0]
    if job.num_experts:
        often = sharing_of(job.recipe, grid).often | (grid.microbatches(job.recipe.batch) == 1)
        with_cells = codes_where(lambda schedule: schedule.cells is not None)
        cells: Bools | np.bool_ = np.isin(grid.schedule, with_cells) & (job.recipe.overlap_ep == "cells")
        if cells.all() or not cells.any():
            cells = cells.any()  # Passes that do not differ by schedule let `_makespan_s` price each schedule once.
        in_cell_s = body.ep_backward_s, body.ep_forward_s
        beside_s = body.ep_hidden_forward_s, body.ep_hidden_backward_s
        for side in (0, 1):
            hidden_s = beside_s[side] + np.where(cells, np.minimum(in_cell_s[side], kernels_s[side]), 0.0)
            exchange_s[side] = np.where(often, hidden_s, 0.0)
    return Kernels(*(grid.copies * each_s for each_s in (*kernels_s, *taken_s, *exchange_s)))


def _pieces(job: Job, stages: int, parameters: RankParameters) -> int:
    """Pieces in which a stage's gradients travel: its layers, or a ConvNet's buckets."""
    if job.transformer:
        return max(1, -(-job.layers // stages))
    held_B = float(np.max(parameters.matrix_elems + parameters.other_elems)) * job.recipe.wire_B
    return max(1, math.ceil(held_B / BUCKET_B))


def _fullest(job: Job, grid: LayoutGrid) -> RankParameters:
    """Parameters of the stage that holds most of each group: the one that the others wait for."""
    telling = job.telling_stages(grid.stages, grid.placement)
    found = [stage_parameters(job, grid, stage, held) for stage, held in telling]
    most = [
        np.max(np.stack(np.broadcast_arrays(*(getattr(one, field.name) for one in found))), axis=0)
        for field in fields(RankParameters)
    ]
    return RankParameters(*most)


def _stage_times(
    job: Job, grid: LayoutGrid, clock: Clock, network: Network
) -> tuple[StageTimes, StageTimes, StageTimes]:
    """(heaviest body, extra of the first stage, extra of the last stage)."""
    model = job.transformer
    if model is None:
        return part_times(clock, job.recipe, convolution_work(job, grid, clock)), StageTimes(), StageTimes()
    shard = Shard(model, grid, job.recipe, clock)
    kinds = layer_kinds(job, grid, shard, network)
    folded = grid.placement is Placement.VEE
    bodies = [
        sum((kinds[kind] * count for kind, count in sorted(held.items())), StageTimes())
        for held in body_layers(job, grid)
    ]
    body = bodies[0]
    for other in bodies[1:]:
        body = body.where(body.total_s >= other.total_s, other)
    first = bodies[0] + part_times(clock, job.recipe, embedding_work(shard))
    last = bodies[0 if folded else -1] + part_times(clock, job.recipe, head_work(shard))
    if model.mtp_layers:
        module = kinds[job.kinds[-1]] + part_times(clock, job.recipe, prediction_module_work(shard))
        last = last + module * model.mtp_layers
    if folded:
        return body, StageTimes(), _beyond(last + part_times(clock, job.recipe, embedding_work(shard)), body)
    return body, _beyond(first, body), _beyond(last, body)


def layer_kinds(job: Job, grid: LayoutGrid, shard: Shard, network: Network) -> dict[LayerKind, StageTimes]:
    """Seconds of one layer of each kind."""
    whole = layer_parameters(job, grid)
    return {
        kind: layer_times(shard, network, kind, accumulation_work(shard, whole[kind.experts]))
        for kind in sorted(set(job.kinds))
    }


def body_layers(job: Job, grid: LayoutGrid) -> list[Counter[LayerKind]]:
    """The layers of stages that differ, of which the heaviest is priced for all."""
    placement = Placement.VEE if grid.placement is Placement.VEE else Placement.LOOPED
    return [held for _, held in job.telling_stages(grid.stages, placement)]


def _beyond(stage: StageTimes, body: StageTimes) -> StageTimes:
    """What `stage` takes more than `body`, 0 where it takes less. Traffic hidden in passes is read from bodies."""
    named = [f.name for f in fields(StageTimes) if f.name not in ("hidden_forward_s", "hidden_backward_s")]
    return StageTimes(**{name: np.maximum(0.0, getattr(stage, name) - getattr(body, name)) for name in named})


def _host_traffic(cluster: Cluster, grid: LayoutGrid, recipe: Recipe, parameters: RankParameters) -> HostTraffic:
    """Traffic of a rank that holds `parameters` with its host, nothing where nothing is offloaded."""
    matrix, other = updated(grid, parameters)
    return host_traffic(
        cluster,
        (matrix + other) * recipe.parameter_B,
        (matrix + other) * recipe.gradient_B,
        updated_B(recipe, matrix, other),
        grid.microbatches(recipe.batch),
        offloaded=grid.offload != KEEP,
        parameters_leave=grid.offload == OFFLOAD_PARAMETERS,
        gradients_leave=gradients_leave(recipe, grid),
    )


def _transfer(job: Job, grid: LayoutGrid, clock: Clock, network: Network) -> Number:
    """Seconds to hand a micro-batch's activations to the next stage."""
    size_B = grid.micro_batch * job.recipe.seq / grid.cp * job.hidden * clock.element_B
    paired = job.recipe.paired_sends or job.recipe.overlap_pp
    return handover_s(network.levels("pp"), network.levels("tp"), size_B, grid.tp, grid.sequence_parallel > 0, paired)


def price_step(job: Job, cluster: Cluster, grid: LayoutGrid) -> Step:
    """Seconds of a step by part, for every layout of `grid` (all with the same number of pipeline stages)."""
    return priced(compose(job, cluster, grid), grid)


def step_time_s(parts: Composition, grid: LayoutGrid) -> Number:
    """Seconds of a whole step: pipeline makespan, exposed data-parallel traffic, update and fixed host time."""
    return _makespan_s(grid, parts) + (parts.waits.once_s + parts.around.host.once_s + parts.update_s + parts.fixed_s)


def priced(parts: Composition, grid: LayoutGrid) -> Step:
    """The same seconds, told apart by what the most loaded device does; waiting for other stages is the bubble."""
    m, busy = parts.microbatches, parts.body + parts.extra
    chunks = grid.vpp // parts.copies
    hold_s = 2.0 * parts.transfer_s * chunks if parts.blocking and parts.stages > 1 else 0.0
    hidden_s = _hidden_s(grid, parts)
    each_s = parts.waits.forward_s + parts.waits.backward_s
    host_s = parts.waits.host_s
    makespan_s = _makespan_s(grid, parts)
    idle_s = makespan_s - m * (busy.total_s + each_s + host_s + hold_s) + hidden_s
    return Step(
        compute_s=m * (busy.compute_forward_s + busy.compute_backward_s),
        tp_comm_s=m * (busy.tp_forward_s + busy.tp_backward_s),
        pp_comm_s=m * hold_s,
        dp_comm_s=m * each_s + parts.waits.once_s,
        ep_comm_s=m * (busy.ep_forward_s + busy.ep_backward_s) - hidden_s,
        cp_comm_s=m * (busy.cp_forward_s + busy.cp_backward_s),
        host_comm_s=m * host_s + parts.around.host.once_s,
        bubble_s=np.where(idle_s > ROUNDING_FRAC * makespan_s, idle_s, 0.0),
        optimizer_s=parts.update_s,
        other_s=parts.fixed_s,
        ep_hidden_s=hidden_s + m * busy.ep_hidden_s,
    )


def _hidden_s(grid: LayoutGrid, parts: Composition) -> Number:
    """Seconds by which the cells of the outermost device are shorter than their passes one after the other."""
    times = parts.times()
    return cells(grid, parts) * (times.forward_s + times.backward_s - times.cell_s)


def cells(grid: LayoutGrid, parts: Composition) -> Number:
    """Cells that the outermost device runs, in micro-batches."""
    return cells_by_code(grid.schedule, parts.stages, parts.microbatches, chunks=grid.vpp)


def _makespan_s(grid: LayoutGrid, parts: Composition) -> Number:
    """Makespan of the pipeline by the closed form of each layout's schedule."""
    return makespan_by_code_s(grid.schedule, parts.stages, parts.microbatches, grid.vpp, parts.times())
