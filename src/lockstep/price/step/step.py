"""`Step`: one optimizer step of a job on a cluster, for a layout or a whole grid of layouts with one stage count.

    step = pipeline makespan + waiting for slower ranks + exposed data-parallel and host traffic + optimizer
           + fixed host time + generation

A stage's pass takes its kernels (`price.kernels`) and what they wait for of tensor, context, expert, data-parallel
and host traffic (`simulate.parallel`). The pipeline's closed form turns stage times into a makespan; `program.py`
builds the same step as a Program, and the simulation gives the same time. A device of a folded pipeline counts as one
stage; of two copies of the model, each stage is one. Layers that are shared out are priced as if each stage held as
much as the heaviest one, which is exact when they divide evenly and else a bound; layers that are placed by hand
(`Layout.stages`) with the time of every stage, by a replay of the schedule's order (`placed.py`).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Number, Whole
from lockstep.describe.hardware import Cluster
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.convolution import convolution_work
from lockstep.price.kernels.layer import embedding_work, head_work, prediction_module_work
from lockstep.price.kernels.norms import final_norm_work
from lockstep.price.kernels.shard import Shard
from lockstep.price.layout import Job, LayoutGrid, stage_parameters
from lockstep.price.layout.groups import DATA
from lockstep.price.step.device import device_of, fullest, pieces_of
from lockstep.price.step.network import Network
from lockstep.price.step.pieces import body_layers, kind_times, layer_kinds, placed_pieces, with_vocabulary
from lockstep.price.step.placed import Device, chunk_times, replayed_s, shares_of
from lockstep.price.step.stage import TIMES, StageTimes, part_times
from lockstep.simulate.parallel.data.around import Around, Exposed
from lockstep.simulate.parallel.group import share_links
from lockstep.simulate.parallel.pipeline import SCHEDULES, Placement, Times, cells_by_code, makespan_by_code_s
from lockstep.simulate.parallel.pipeline.handover import handover_s
from lockstep.simulate.parallel.waiting import Slower, slower

PARTS = (
    "compute", "tp_comm", "pp_comm", "dp_comm", "ep_comm", "cp_comm", "host_comm", "bubble", "waiting", "optimizer",
    "other", "generation",
)  # fmt: skip
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
    waiting_s: Number = 0.0
    """What ranks wait for slower ones."""
    generation_s: Number = 0.0
    """In which devices generate what they then train on."""

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
    slower: Slower | None = None
    """What ranks that differ cost; None where all take equally long."""
    generation_frac: float = 0.0
    """Share of the step in which devices generate."""
    devices: tuple[Device, ...] = ()
    """Where layers are placed by hand; what else is said here is then of the busiest one."""
    busiest: int = 0

    def of(self, device: int) -> Device:
        """What one device does; all do the same where layers are shared out."""
        return self.devices[device] if self.devices else Device(self.body, self.around, self.waits, self.update_s)

    def times(self) -> Times:
        """Stage times as the pipeline formulas take them."""
        if self.devices:
            return chunk_times(self.devices, self.transfer_s, self.blocking)
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
    clock = Clock.of(cluster.device, job.recipe)
    network = Network(cluster, grid)
    devices, busiest = _devices(job, cluster, grid, clock, network), 0
    if devices:
        busiest = max(range(len(devices)), key=lambda device: devices[device].pass_s)
        one, first, last = devices[busiest], devices[busiest].extra, StageTimes()
    else:
        body, first, last = _stage_times(job, grid, clock, network)
        held = fullest(job, grid)
        telling = [layers for _, layers in job.telling_stages(grid.stages, grid.placement)]
        one = device_of(job, cluster, clock, network, body, held, pieces_of(job, grid.stages, held), telling)
    body, waits = one.body, one.waits
    return Composition(
        stages=grid.stages,
        microbatches=grid.microbatches(job.recipe.batch),
        body=body,
        first=first,
        last=last,
        around=one.around,
        waits=waits,
        transfer_s=_transfer(job, grid, clock, network) if grid.stages > 1 else 0.0,
        update_s=one.update_s,
        fixed_s=clock.step_s,
        blocking=not job.recipe.overlap_pp,
        copies=grid.copies,
        hides_ep=job.recipe.overlap_ep == "cells",
        ep_device_frac=job.recipe.exchange_device_frac,
        beside_ep_s=_beside_exchange(network, body, waits) if job.num_experts else 0.0,
        slower=_slower(job, cluster, grid),
        generation_frac=job.recipe.objective.generation_frac,
        devices=devices,
        busiest=busiest,
    )


def _slower(job: Job, cluster: Cluster, grid: LayoutGrid) -> Slower | None:
    """What jitter costs. Dense and expert groups wait in every layer, whichever they share ranks with too; data groups
    where they gather there.
    """
    recipe, ranks = job.recipe, grid.tp * grid.cp * grid.dp
    together = grid.tp * grid.cp
    if job.num_experts:
        together = np.lcm(together, grid.expert_tp * grid.ep)
    inner = np.where(grid.zero >= 3, ranks, together)
    return slower(
        recipe.jitter, recipe.rank_law(cluster.rank_spread_frac), inner=inner, stages=grid.stages,
        replicas=np.maximum(1, ranks // inner), ranks=job.devices, microbatches=grid.microbatches(recipe.batch),
        chunks=grid.vpp,
    )  # fmt: skip


def _devices(job: Job, cluster: Cluster, grid: LayoutGrid, clock: Clock, network: Network) -> tuple[Device, ...]:
    """Every device of one layout whose layers are placed by hand; none where they are shared out."""
    if not grid.split:
        return ()
    kinds, more = placed_pieces(job, grid, clock, network)
    held = zip(grid.route, job.chunk_layers(grid.split), strict=True)
    chunks, found = {where: kind_times(kinds, layers) for where, layers in held}, []
    for stage, layers in job.telling_stages(grid.stages, grid.placement, grid.split):
        here = sorted(where for where in grid.route if where[0] == stage)
        parts = [chunks[where] for where in here]
        parameters = stage_parameters(job, grid, stage, layers)
        pieces, whole = max(1, sum(layers.values())), sum(parts, StageTimes())
        one = device_of(job, cluster, clock, network, whole, parameters, pieces, [layers])
        beside = tuple(more.get(where, StageTimes()) for where in here)
        found.append(replace(one, shares=shares_of(parts), more=beside))
    return tuple(found)


def _beside_exchange(network: Network, body: StageTimes, waiting: Exposed) -> Number:
    """Seconds of a forward and a backward pass in which the links of the experts' exchange carry other traffic."""
    data = network.levels(*DATA)
    tensor_s = np.where(share_links(network.levels("tp"), data), body.tp_forward_s + body.tp_backward_s, 0.0)
    context_s = np.where(share_links(network.levels("cp"), data), body.cp_forward_s + body.cp_backward_s, 0.0)
    hidden_s = body.hidden_forward_s + body.hidden_backward_s
    return tensor_s + context_s + hidden_s + waiting.forward_s + waiting.backward_s


def _stage_times(
    job: Job, grid: LayoutGrid, clock: Clock, network: Network
) -> tuple[StageTimes, StageTimes, StageTimes]:
    """(heaviest body, extra of the first stage, extra of the last stage)."""
    model = job.transformer
    if model is None:
        return part_times(clock, job.recipe, grid, convolution_work(job, grid, clock)), StageTimes(), StageTimes()
    shard = Shard(model, grid, job.recipe, clock)
    kinds = layer_kinds(job, grid, shard, network)
    folded = grid.placement is Placement.VEE
    bodies = [kind_times(kinds, held) for held in body_layers(job, grid)]
    body = bodies[0]
    for other in bodies[1:]:
        body = body.where(body.total_s >= other.total_s, other)
    if job.recipe.spreads(grid.stages):
        last = bodies[0 if folded else -1] + part_times(clock, job.recipe, grid, final_norm_work(shard))
        return with_vocabulary(shard, network, body), _beyond(bodies[0], body), _beyond(last, body)
    first = bodies[0] + part_times(clock, job.recipe, grid, embedding_work(shard))
    last = bodies[0 if folded else -1] + part_times(clock, job.recipe, grid, head_work(shard))
    if model.mtp_layers:
        module = kinds[job.kinds[-1]] + part_times(clock, job.recipe, grid, prediction_module_work(shard))
        last = last + module * model.mtp_layers
    if folded:
        return body, StageTimes(), _beyond(last + part_times(clock, job.recipe, grid, embedding_work(shard)), body)
    return body, _beyond(first, body), _beyond(last, body)


def _beyond(stage: StageTimes, body: StageTimes) -> StageTimes:
    """What `stage` takes more than `body`, 0 where it takes less. Traffic hidden in passes is read from bodies."""
    named = [name for name in TIMES if not name.startswith(("hidden", "beside"))]
    return StageTimes(**{name: np.maximum(0.0, getattr(stage, name) - getattr(body, name)) for name in named})


def message_B(job: Job, grid: LayoutGrid, clock: Clock) -> Number:
    """Bytes of a micro-batch's activations that a stage hands to the next one, all its tensor-parallel ranks together.

    A pass hands over what all its forward or backward passes give; the mean of both ways.
    """
    size_B: Number = grid.micro_batch * job.recipe.passed_seq / grid.cp * job.hidden * clock.element_B
    return size_B * (sum(job.recipe.passes(grid)) / 2)


def _transfer(job: Job, grid: LayoutGrid, clock: Clock, network: Network) -> Number:
    """Seconds to hand a micro-batch's activations to the next stage."""
    size_B, paired = message_B(job, grid, clock), job.recipe.habits.paired_sends or job.recipe.overlap_pp
    return handover_s(network.levels("pp"), network.levels("tp"), size_B, grid.tp, grid.sequence_parallel > 0, paired)


def price_step(job: Job, cluster: Cluster, grid: LayoutGrid) -> Step:
    """Seconds of a step by part, for every layout of `grid` (all with the same number of pipeline stages)."""
    return priced(compose(job, cluster, grid), grid)


def step_time_s(parts: Composition, grid: LayoutGrid) -> Number:
    """Seconds of a whole step: pipeline makespan, exposed data-parallel traffic, update and fixed host time."""
    makespan_s = _makespan_s(grid, parts)
    once_s = parts.waits.once_s + parts.around.host.once_s + parts.update_s + parts.fixed_s
    trained_s = makespan_s + (once_s if parts.slower is None else once_s + waiting_s(parts, grid, makespan_s))
    return trained_s / (1.0 - parts.generation_frac) if parts.generation_frac else trained_s


def waiting_s(parts: Composition, grid: LayoutGrid, makespan_s: Number) -> Number:
    """Seconds that ranks wait for slower ones, with passes that take `makespan_s` when all are equally fast.

    Kernels are taken to be as large a part of the makespan as of a pass.
    """
    if parts.slower is None:
        return 0.0
    busy, times = parts.body, parts.times()
    pass_s, more_s = times.forward_s + times.backward_s, parts.extra.total_s
    if parts.devices:
        device = parts.devices[parts.busiest]
        others_s = [one.pass_s for place, one in enumerate(parts.devices) if place != parts.busiest]
        busy, pass_s = device.body + device.extra, device.pass_s
        more_s = pass_s - max(others_s, default=pass_s)
    kernels_s = busy.compute_forward_s, busy.compute_backward_s
    share = (kernels_s[0] + kernels_s[1]) / pass_s
    if parts.stages == 1:
        return parts.slower.waiting_s(share * makespan_s, *kernels_s)
    m, heaviest_s = parts.microbatches, pass_s if parts.devices else pass_s + more_s
    fill_s = np.maximum(0.0, makespan_s - m * (heaviest_s + _hold_s(parts, grid)))
    # Of two copies of the model, first and last stage share a device, and two devices do.
    alone_s = m * more_s if parts.copies == 1 else 0.0
    return parts.slower.waiting_s(share * makespan_s, *kernels_s, share * fill_s, share * alone_s)


def _hold_s(parts: Composition, grid: LayoutGrid) -> Number:
    """Seconds that a device is held by what it hands over of one micro-batch."""
    held = parts.blocking and parts.stages > 1
    return 2.0 * parts.transfer_s * (grid.vpp // parts.copies) if held else 0.0


def priced(parts: Composition, grid: LayoutGrid) -> Step:
    """The same seconds by what the most loaded device does; waiting for other stages is the bubble."""
    m, busy = parts.microbatches, parts.body + parts.extra
    hold_s = _hold_s(parts, grid)
    hidden_s = _hidden_s(grid, parts)
    each_s = parts.waits.forward_s + parts.waits.backward_s
    host_s = parts.waits.host_s
    makespan_s = _makespan_s(grid, parts)
    slower_s = waiting_s(parts, grid, makespan_s)
    idle_s = makespan_s - m * (busy.total_s + each_s + host_s + hold_s) + hidden_s
    step = Step(
        compute_s=m * (busy.compute_forward_s + busy.compute_backward_s),
        tp_comm_s=m * (busy.tp_forward_s + busy.tp_backward_s),
        pp_comm_s=m * (busy.pp_forward_s + busy.pp_backward_s + hold_s),
        dp_comm_s=m * each_s + parts.waits.once_s,
        ep_comm_s=m * (busy.ep_forward_s + busy.ep_backward_s) - hidden_s,
        cp_comm_s=m * (busy.cp_forward_s + busy.cp_backward_s),
        host_comm_s=m * host_s + parts.around.host.once_s,
        bubble_s=np.where(idle_s > ROUNDING_FRAC * makespan_s, idle_s, 0.0),
        optimizer_s=parts.update_s,
        other_s=parts.fixed_s,
        ep_hidden_s=hidden_s + m * busy.ep_hidden_s,
        waiting_s=slower_s,
    )
    share_frac = parts.generation_frac
    return replace(step, generation_s=step.step_time_s * share_frac / (1.0 - share_frac)) if share_frac else step


def _hidden_s(grid: LayoutGrid, parts: Composition) -> Number:
    """Seconds by which the cells of the outermost device are shorter than their passes one after the other."""
    if parts.devices:
        return 0.0
    times = parts.times()
    return cells(grid, parts) * (times.forward_s + times.backward_s - times.cell_s)


def cells(grid: LayoutGrid, parts: Composition) -> Number:
    """Cells that the outermost device runs, in micro-batches."""
    return cells_by_code(grid.schedule, parts.stages, parts.microbatches, chunks=grid.vpp)


def _makespan_s(grid: LayoutGrid, parts: Composition) -> Number:
    """Makespan of the pipeline by the closed form of each layout's schedule.

    Of devices that differ, what the replayed step takes less what the busiest one does after its passes.
    """
    if parts.devices:
        after_s = parts.waits.once_s + parts.around.host.once_s + parts.update_s
        whole_s = replayed_s(SCHEDULES[int(grid.schedule)], int(parts.microbatches), parts.devices, parts.times())
        return whole_s - float(np.asarray(after_s))
    return makespan_by_code_s(grid.schedule, parts.stages, parts.microbatches, grid.vpp, parts.times())
