"""Pieces of stages: seconds of a layer of each kind, of embedding, prediction modules and head."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from lockstep.kernels.clock import Clock
from lockstep.kernels.layer import Shard, accumulation_work, embedding_work, head_work, prediction_projection_work
from lockstep.layout import Job, LayerKind, LayoutGrid, layer_parameters
from lockstep.parallel.pipeline import Placement
from lockstep.step.network import Network
from lockstep.step.stage import StageTimes, layer_times, part_times


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


def kind_times(kinds: Mapping[LayerKind, StageTimes], held: Counter[LayerKind]) -> StageTimes:
    """Seconds of the layers `held`."""
    return sum((kinds[kind] * count for kind, count in sorted(held.items())), StageTimes())


def placed_pieces(
    job: Job, grid: LayoutGrid, clock: Clock, network: Network
) -> tuple[dict[LayerKind, StageTimes], dict[tuple[int, int], StageTimes]]:
    """(seconds of a layer of each kind, what chunks do besides: embedding, modules, head) of layers placed by hand."""
    if (model := job.transformer) is None:
        return {}, {}
    shard, route = Shard(model, grid, job.recipe, clock), grid.route
    kinds, more = layer_kinds(job, grid, shard, network), defaultdict[tuple[int, int], StageTimes](StageTimes)
    more[route[0]] += part_times(clock, job.recipe, embedding_work(shard))
    more[route[-1]] += part_times(clock, job.recipe, head_work(shard)) * (1 + model.mtp_layers)
    if model.mtp_layers:
        joined = part_times(clock, job.recipe, prediction_projection_work(shard))
        more[route[grid.mtp_stage]] += (kinds[job.kinds[-1]] + joined) * model.mtp_layers
    return kinds, dict(more)
