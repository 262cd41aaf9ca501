"""What one device of a step does: the kernels of its passes, the traffic around them, its update."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import reduce

import numpy as np

from lockstep.base.types.arrays import Bools, Number
from lockstep.describe.hardware import Cluster
from lockstep.describe.workload import LayerKind, RankParameters
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.copies import returned_s
from lockstep.price.kernels.optimizer import bucketing_s, optimizer_s, outer_update_s, updated, updated_B
from lockstep.price.layout import (
    KEEP,
    OFFLOAD_PARAMETERS,
    Job,
    LayoutGrid,
    Recipe,
    copied_elems,
    gradients_leave,
    leaving_B,
    paged_out_B,
    sharing_in,
    sharing_of,
    stage_parameters,
    trained_parameters,
)
from lockstep.price.step.network import Network
from lockstep.price.step.placed import Device
from lockstep.price.step.stage import StageTimes
from lockstep.simulate.parallel.data.around import Around
from lockstep.simulate.parallel.data.offload import HostTraffic, host_traffic, kept_alone_frac
from lockstep.simulate.parallel.data.zero import Kernels, Sizes, traffic
from lockstep.simulate.parallel.pipeline import codes_where

BUCKET_B = 25 * 2.0**20
"""Gradients of small layers travel together: PyTorch's DistributedDataParallel gathers 25 MiB (arXiv 2006.15704)."""


def device_of(
    job: Job, cluster: Cluster, clock: Clock, network: Network, body: StageTimes, held: RankParameters, layers: int,
    kinds: Sequence[Counter[LayerKind]],
) -> Device:  # fmt: skip
    """A device whose `layers` layers with the parameters `held` take `body`, and what comes around its passes.

    It holds the layers of the one of `kinds` that sends most to its host.
    """
    grid = network.grid
    around = _around(job, cluster, network, held, body, layers, kinds)
    trained = held * job.recipe.objective.models if job.recipe.adapters is None else fullest_adapters(job, grid)
    update_s = optimizer_s(clock, grid, job.recipe, trained, job.hidden)
    update_s = np.where(grid.on_host, around.host.update_s, update_s) + bucketing_s(clock, grid, job.recipe, trained)
    update_s = update_s + returned_s(clock, grid, job.recipe, layers)
    if job.recipe.local_steps > 1:
        update_s = update_s + outer_update_s(clock, grid, job.recipe, held)
    return Device(body, around, around.waits, update_s)


def _around(
    job: Job, cluster: Cluster, network: Network, held: RankParameters, body: StageTimes, pieces: int,
    kinds: Sequence[Counter[LayerKind]],
) -> Around:  # fmt: skip
    """Traffic around the passes of a stage, in `pieces` pieces."""
    grid, recipe = network.grid, job.recipe
    held, layers = held * recipe.objective.models, grid.copies * pieces
    sharing, sizes = sharing_in(job, grid), _sizes(job, grid, held)
    moved = traffic(network.data, grid.zero, sharing, sizes, layers, recipe.overlap_dp)
    host = HostTraffic()
    if np.any(grid.offload != KEEP) or recipe.offload_layers:
        host = _host_traffic(job, cluster, grid, held, pieces, kinds)
    parameter_B, (dense_B, expert_B) = sum(sizes.gathered_B(sharing)), sizes.gradients_B
    copied_B, kernels = dense_B / grid.shard_ranks + expert_B / grid.expert_shard_ranks, _kernels(job, grid, body)
    return Around(
        sharing, moved, kernels, layers, recipe.overlap_dp, parameter_B, dense_B + expert_B, copied_B, host,
        recipe.local_steps,
        Clock.of(cluster.device, recipe).traffic_device_frac, _forwards_each(recipe, grid),
    )  # fmt: skip


def _sizes(job: Job, grid: LayoutGrid, held: RankParameters) -> Sizes:
    """What a stage that holds so many parameters gathers and reduces."""
    recipe = job.recipe

    def of(one: RankParameters, each_B: float) -> tuple[Number, Number]:
        return (one.matrix_elems + one.other_elems) * each_B, one.expert_elems * each_B

    if recipe.adapters is None:
        parameters_B = of(held, recipe.parameter_B)
        return Sizes(parameters_B, parameters_B, of(held, recipe.wire_B))
    adapters = fullest_adapters(job, grid)
    copies_B = recipe.parameter_B * np.maximum(copied_elems(job, grid, 0), copied_elems(job, grid, grid.stages - 1))
    dense_B, expert_B = of(adapters, recipe.of_adapters.wire_B)
    # Of what is gathered of a frozen model nearly all are matrices of blocks, which travel as they are stored.
    return Sizes(of(held, recipe.base_B), of(adapters, recipe.of_adapters.parameter_B), (dense_B + copies_B, expert_B))


def _forwards_each(recipe: Recipe, grid: LayoutGrid) -> Number:
    """Forward passes for each model that is trained: as often are sharded parameters gathered for them."""
    forwards, models = recipe.passes(grid)
    return forwards / models


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


def pieces_of(job: Job, stages: int, parameters: RankParameters) -> int:
    """Pieces in which a stage's gradients travel: its layers, or a ConvNet's buckets."""
    if job.transformer:
        return max(1, -(-job.layers // stages))
    held_B = float(np.max(parameters.matrix_elems + parameters.other_elems)) * job.recipe.wire_B
    return max(1, math.ceil(held_B / BUCKET_B))


def fullest(job: Job, grid: LayoutGrid) -> RankParameters:
    """Parameters of the stage that holds most of each group: the one that the others wait for."""
    telling = job.telling_stages(grid.stages, grid.placement)
    found = [stage_parameters(job, grid, stage, held) for stage, held in telling]
    most = [
        np.max(np.stack(np.broadcast_arrays(*(getattr(one, field.name) for one in found))), axis=0)
        for field in fields(RankParameters)
    ]
    return RankParameters(*most)


def fullest_adapters(job: Job, grid: LayoutGrid) -> RankParameters:
    """Adapters of the stage that holds most of them."""
    found = [trained_parameters(job, grid, held) for _, held in job.telling_stages(grid.stages, grid.placement)]
    return max(found, key=lambda one: float(np.max(one.total_elems)))


def _host_traffic(
    job: Job, cluster: Cluster, grid: LayoutGrid, parameters: RankParameters, layers: int,
    kinds: Sequence[Counter[LayerKind]],
) -> HostTraffic:  # fmt: skip
    """Traffic of a rank that holds `parameters` with its host, nothing where nothing is offloaded."""
    recipe, sharing = job.recipe, sharing_in(job, grid)
    held_elems = sum(updated(recipe, grid, parameters))
    matrix, other = updated(recipe, grid, parameters if recipe.adapters is None else fullest_adapters(job, grid))
    trained_elems, parameters_leave = matrix + other, grid.offload == OFFLOAD_PARAMETERS
    if recipe.adapters is None:
        parameters_B, gradients_B = held_elems * recipe.parameter_B, trained_elems * recipe.gradient_B
    else:
        parameters_B = trained_elems * recipe.of_adapters.parameter_B + np.where(
            parameters_leave, held_elems * recipe.base_B, 0.0
        )
        gradients_B = trained_elems * recipe.of_adapters.gradient_B
    found = host_traffic(
        cluster.host_bandwidth_Bps,
        cluster.host_update_Bps,
        parameters_B,
        gradients_B,
        updated_B(recipe, matrix, other),
        grid.microbatches(recipe.batch),
        offloaded=grid.on_host,
        parameters_leave=parameters_leave,
        gathered=(sharing.forward_frac, sharing.backward_frac),
        gradients_leave=gradients_leave(recipe, grid),
        paged_B=paged_out_B(job, cluster, grid),
        kept_B=reduce(np.maximum, [leaving_B(job, grid, held) for held in kinds]),
        kept_alone=kept_alone_frac(recipe.offloaded_of(layers), layers, recipe.sharding == "deepspeed"),
    )
    return replace(found, up_forward_s=found.up_forward_s * _forwards_each(recipe, grid))
