"""What one rank of a pipeline stage holds: parameters before ZeRO shards them, its shard's bytes, optimizer states.

`checkpoint_B`: bytes of a whole checkpoint, what is needed to go on training as if nothing had happened.

    size = parameters x p + matrices x k + others x k'
p: bytes of a working parameter (2); k, k': bytes of optimizer state per matrix and per other parameter (12 for Adam:
fp32 master and two moments). Every parameter is counted once, however many ranks hold it; gradients are not saved.
Values without gradients (correction biases) are saved as working parameters. 14 B per parameter for bf16 and AdamW:
BLOOM-176B's 2.3 TB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from lockstep.base.types.arrays import Number, Truth
from lockstep.describe.workload import (
    LayerKind,
    RankParameters,
    Weight,
    all_weights,
    embedding_weights,
    head_weights,
    layer_weights,
    modules_of,
    mtp_weights,
    parameters,
    rank_parameters,
    stored_weights,
)
from lockstep.price.layout.job import Job
from lockstep.price.layout.kept import by_stored
from lockstep.price.layout.layout import Layout, LayoutGrid

Counted = Callable[..., RankParameters]
"""`rank_parameters`, or what counts bytes in its place."""


def stage_parameters(
    job: Job, grid: LayoutGrid, stage: int, held: Counter[LayerKind], counted: Counted = rank_parameters
) -> RankParameters:
    """Parameters on one rank of device `stage`, which holds the layers `held`, before any ZeRO sharding."""
    model = job.transformer
    if model is None:
        return counted(all_weights(job.model))
    cut = grid.tp, grid.ep, grid.expert_tp
    first, last, modules = grid.pieces_on(stage)
    found = RankParameters(0.0, 0.0, 0.0)
    for kind, count in by_stored(held).items():
        found = found + counted(layer_weights(model, kind), *cut) * count
    if job.recipe.spreads(grid.stages):
        ends = embedding_weights(model) * first + head_weights(model) * last
        found = found + counted([one for one in ends if one.cut != "vocab"], *cut)
        tables = [one for one in (*embedding_weights(model), *head_weights(model)) if one.cut == "vocab"]
        return found + counted(tables, grid.tp * grid.pp)
    if first:
        found = found + counted(embedding_weights(model), *cut)
    elif (last and model.tied_embeddings) or (modules and model.mtp_layers):
        # A copy of the first stage's table: a tied head's, and that of the modules' own look-ups (Megatron Core 0.12,
        # core/models/gpt/gpt_model.py: `if self.pre_process or self.mtp_process`).
        found = found + counted(embedding_weights(model)[:1], *cut)
    if last:
        found = found + counted(head_weights(model), *cut)
    if modules and model.mtp_layers:
        found = found + counted(mtp_weights(model), *cut) * model.mtp_layers
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


def states_B(job: Job, held: RankParameters, recount: Callable[[Counted], RankParameters]) -> tuple[Number, Number]:
    """(dense, expert) bytes of the optimizer's states of the parameters `held`, master copies and counters of steps
    apart; `recount` counts `held` again with another counter than `rank_parameters`.

    Exact to the byte where one device holds whole tensors; parts of tensors get their share of the whole's states.
    """
    states = job.recipe.states
    if states.tensor_B is None:
        dense_B = held.matrix_elems * states.matrix_states_B + held.other_elems * states.other_states_B
        return dense_B, held.expert_elems * states.matrix_states_B
    found = recount(_counter(job))
    # The maps exist where any tensor is narrow.
    maps_B = states.shared_B * (found.total_elems < held.total_elems * (states.table_B or 0.0))
    return found.matrix_elems + found.other_elems + maps_B, found.expert_elems


def _counter(job: Job) -> Counted:
    """Counts bytes of states in the place of elements."""
    states, model = job.recipe.states, job.transformer
    wide = job.recipe.habits.wide_tables and model is not None and model.patches is None
    modules = modules_of("" if model is None else model.model_type)

    def counted(
        weights: Iterable[Weight], tp: Number = 1, ep: Number = 1, expert_tp: Number | None = None
    ) -> RankParameters:
        stored = stored_weights(tuple(weights), modules)
        return rank_parameters(stored, tp, ep, expert_tp, partial(states.each_B, wide=wide))

    return counted


def checkpoint_B(job: Job) -> float:
    """Bytes of one checkpoint of the whole job, layout and sharding apart."""
    held, own_B = _whole(job)
    saved_B = own_B + held.total_elems * (job.recipe.parameter_B + job.recipe.states.master_B)
    return float(saved_B + parameters(job.model).untrained * job.recipe.parameter_B)


def mean_states_B(job: Job) -> float:
    """Bytes of the optimizer's states per parameter where tensors differ, else of a matrix; master copies apart."""
    states = job.recipe.states
    if states.tensor_B is None:
        return states.matrix_states_B
    held, own_B = _whole(job)
    return float(own_B / held.total_elems)


def _whole(job: Job) -> tuple[RankParameters, Number]:
    """Parameters of the whole model, and the bytes of their states."""
    layers = job.stage_layers(1)[0] if job.transformer else Counter[LayerKind]()
    recount = partial(stage_parameters, job, Layout().grid(), 0, layers)
    held = recount()
    return held, sum(states_B(job, held, recount))
