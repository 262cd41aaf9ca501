"""What one rank of a pipeline stage holds: parameters before ZeRO shards them, and its shard's bytes."""

from __future__ import annotations

from collections import Counter

import numpy as np

from lockstep.base.types.arrays import Number, Truth
from lockstep.describe.workload import (
    LayerKind,
    RankParameters,
    all_weights,
    embedding_weights,
    head_weights,
    layer_weights,
    mtp_weights,
    rank_parameters,
)
from lockstep.price.layout.job import Job
from lockstep.price.layout.kept import by_stored
from lockstep.price.layout.layout import LayoutGrid


def stage_parameters(job: Job, grid: LayoutGrid, stage: int, held: Counter[LayerKind]) -> RankParameters:
    """Parameters on one rank of device `stage`, which holds the layers `held`, before any ZeRO sharding."""
    model = job.transformer
    if model is None:
        return rank_parameters(all_weights(job.model))
    cut = grid.tp, grid.ep, grid.expert_tp
    first, last, modules = grid.pieces_on(stage)
    found = RankParameters(0.0, 0.0, 0.0)
    for kind, count in by_stored(held).items():
        found = found + rank_parameters(layer_weights(model, kind), *cut) * count
    if job.recipe.spreads(grid.stages):
        ends = embedding_weights(model) * first + head_weights(model) * last
        found = found + rank_parameters([one for one in ends if one.cut != "vocab"], *cut)
        tables = [one for one in (*embedding_weights(model), *head_weights(model)) if one.cut == "vocab"]
        return found + rank_parameters(tables, grid.tp * grid.pp)
    if first:
        found = found + rank_parameters(embedding_weights(model), *cut)
    elif (last and model.tied_embeddings) or (modules and model.mtp_layers):
        # A copy of the first stage's table: a tied head's, and that of the modules' own look-ups (Megatron Core 0.12,
        # core/models/gpt/gpt_model.py: `if self.pre_process or self.mtp_process`).
        found = found + rank_parameters(embedding_weights(model)[:1], *cut)
    if last:
        found = found + rank_parameters(head_weights(model), *cut)
    if modules and model.mtp_layers:
        found = found + rank_parameters(mtp_weights(model), *cut) * model.mtp_layers
    return found


def layer_parameters(job: Job, grid: LayoutGrid) -> dict[LayerKind, Number]:
    """Trained parameters of one layer on one rank, by what it stores."""
    model = job.transformer
    if model is None:
        return {}
    found, adapters = {}, job.recipe.adapters_on(model)
    for kind in sorted({kind.stored for kind in job.kinds}):
        own = layer_weights(model, kind)
        trained = own if adapters is None else adapters.weights(own)
        found[kind] = rank_parameters(trained, grid.tp, grid.ep, grid.expert_tp).total_elems
    return found


def sharded(grid: LayoutGrid, dense_B: Number, expert_B: Number, divided: Truth) -> Number:
    """Bytes on a rank of what the shard group shares out where it is `divided`."""
    return dense_B / np.where(divided, grid.shard_ranks, 1) + expert_B / np.where(divided, grid.expert_shard_ranks, 1)
