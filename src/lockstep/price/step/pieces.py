"""Pieces of stages: seconds of a layer of each kind, of embedding, prediction modules and head."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

import numpy as np

from lockstep.describe.workload import LayerKind
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.layer import embedding_work, head_work, prediction_projection_work, vocabulary_work
from lockstep.price.kernels.shard import Shard
from lockstep.price.kernels.states import states_work
from lockstep.price.layout import Job, LayoutGrid, layer_parameters
from lockstep.price.step.network import Network
from lockstep.price.step.stage import StageTimes, layer_times, part_times
from lockstep.simulate.parallel.piece import Piece, slowing
from lockstep.simulate.parallel.pipeline import Placement, vocabulary


def layer_kinds(job: Job, grid: LayoutGrid, shard: Shard, network: Network) -> dict[LayerKind, StageTimes]:
    """Seconds of one layer of each kind."""
    whole = layer_parameters(job, grid)
    return {
        kind: layer_times(shard, network, kind, states_work(shard, kind, whole[kind.stored]))
        for kind in sorted(set(job.kinds))
    }


def body_layers(job: Job, grid: LayoutGrid) -> list[Counter[LayerKind]]:
    """The layers of stages that differ, of which the heaviest is priced for all."""
    placement = Placement.VEE if grid.placement is Placement.VEE else Placement.LOOPED
    return [held for _, held in job.telling_stages(grid.stages, placement)]


def kind_times(kinds: Mapping[LayerKind, StageTimes], held: Counter[LayerKind]) -> StageTimes:
    """Seconds of the layers `held`."""
    return sum((kinds[kind] * count for kind, count in sorted(held.items())), StageTimes())


def with_vocabulary(shard: Shard, network: Network, body: StageTimes) -> StageTimes:
    """`body` with a stage's share of embedding and head, and the traffic that it waits for."""
    found = body + part_times(shard.clock, shard.recipe, shard.grid, vocabulary_work(shard))
    forward, backward = vocabulary_traffic(shard, network, found)
    return found + StageTimes(pp_forward_s=forward.exposed_s, pp_backward_s=backward.exposed_s)


def vocabulary_traffic(shard: Shard, network: Network, body: StageTimes) -> tuple[Piece, Piece]:
    """Traffic of the shares of embedding and head, beside the kernels of `body` beside which no other runs."""
    free_s = (
        np.maximum(0.0, body.compute_forward_s - body.beside_forward_s),
        np.maximum(0.0, body.compute_backward_s - body.beside_backward_s),
    )
    size_B = shard.loose_tokens * shard.model.hidden * shard.clock.element_B
    found = vocabulary.pieces(shard.recipe.vocab_parallel, network.levels("pp"), size_B, shard.tokens, free_s)
    forward, backward = slowing(found, shard.clock.traffic_device_frac)
    return forward, backward


def placed_pieces(
    job: Job, grid: LayoutGrid, clock: Clock, network: Network
) -> tuple[dict[LayerKind, StageTimes], dict[tuple[int, int], StageTimes]]:
    """(seconds of a layer of each kind, what chunks do besides: embedding, modules, head) of layers placed by hand."""
    if (model := job.transformer) is None:
        return {}, {}
    shard, route = Shard(model, grid, job.recipe, clock), grid.route
    kinds, more = layer_kinds(job, grid, shard, network), defaultdict[tuple[int, int], StageTimes](StageTimes)
    more[route[0]] += part_times(clock, job.recipe, grid, embedding_work(shard))
    more[route[-1]] += part_times(clock, job.recipe, grid, head_work(shard)) * (1 + model.mtp_layers)
    if model.mtp_layers:
        joined = part_times(clock, job.recipe, grid, prediction_projection_work(shard))
        more[route[grid.mtp_stage]] += (kinds[job.kinds[-1]] + joined) * model.mtp_layers
    return kinds, dict(more)
