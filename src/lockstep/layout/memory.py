"""Bytes on one rank of a pipeline stage, by category, for a layout or a grid of layouts that share their stage count.

    parameters   p bytes each (2), divided by the shard group with zero 3 where they are given up after a forward pass
    gradients    g bytes each (4 or 2), divided from zero 2 on where they are reduced after every micro-batch
    optimizer    k bytes each (12 for Adam: fp32 master and two moments), divided from zero 1 on
    activations  peak live micro-batches x what a stage's layers keep, and while a recomputed layer runs backward,
                 what it alone would keep
    buffers      parameters gathered by zero 3, one layer's whole gradients, fp32 logits and their gradient,
                 and the assumed share of the framework

With p + g + k = 2 + 2 + 12 the rule "16 bytes per parameter" is ZeRO's (arXiv 1910.02054, section 3.1); see
`Recipe.bytes_per_parameter` for 18 and 20. Experts are replicated over edp ranks, everything else over dp*cp.
Offloaded states are host memory's (`offload.py`), and so are kept activations of the layers that the recipe's
`offload_layers` counts; two layers' of them at a time are on the device, one in work and one that travels. Where two
copies of the model run in both directions (DualPipe), a rank holds two stages and shards with twice as many.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from lockstep.hardware import Cluster
from lockstep.layout.job import Job, LayerKind
from lockstep.layout.layout import KEEP, OFFLOAD_PARAMETERS, LayoutGrid, host_capacity_B, host_states_B
from lockstep.layout.recipe import LOSS_B, Recipe
from lockstep.layout.routing import busiest_rank_frac
from lockstep.layout.sharing import gradients_leave, sharing_of
from lockstep.parallel.context import Blocks, held_B
from lockstep.parallel.data.local import OUTER_STATE_B
from lockstep.parallel.pipeline import SCHEDULES, peak_held, peak_live_by_code, vocabulary
from lockstep.types.arrays import Floats, Number, Truth, Whole
from lockstep.types.plain import Json
from lockstep.workload import (
    FULL,
    NONE,
    SELECTIVE,
    ConvNet,
    Experts,
    Piece,
    RankParameters,
    Transformer,
    all_weights,
    convnet_activation_B,
    embedding_activation_B,
    embedding_weights,
    head_activation_B,
    head_weights,
    layer_activation_B,
    layer_weights,
    mtp_weights,
    passing_gradient_B,
    rank_parameters,
    spread_activation_B,
)

FRAMEWORK_B = 1.5e9
"""CUDA context, communicator buffers and workspaces of one rank: assumed, typical of NCCL jobs (1 to 2 GB)."""
SLACK_FRAC = 0.05
"""What the allocator holds beyond what is in use: assumed. Megatron-LM's logs of 2021 show up to 0.25, expandable
segments in today's PyTorch a few percent."""
MOMENTS = ("loss", "backward", "last backward", "update")
"""When memory may be fullest: at the loss; in the backward pass of a layer, while others still wait for theirs; at its
end, when all gradients are there; during the update."""


CATEGORIES = tuple(f"{name}_B" for name in ("parameters", "gradients", "optimizer", "activations", "buffers"))


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on one rank by category, and what it keeps in host memory; arrays when the layout is a grid."""

    parameters_B: Number
    gradients_B: Number
    optimizer_B: Number
    activations_B: Number
    buffers_B: Number
    capacity_B: float
    host_B: Number = 0.0
    """Offloaded states and activations, in host memory."""
    host_capacity_B: float = math.inf
    """A rank's share of host memory; infinite where it is not known."""
    moment: Whole = 1
    """When these are there: a code of MOMENTS."""

    @property
    def total_B(self) -> Number:
        """All categories on the device together."""
        return self.parameters_B + self.gradients_B + self.optimizer_B + self.activations_B + self.buffers_B

    @property
    def fits(self) -> Truth:
        """Whether the total is within the device's memory, and offloaded states within the host's."""
        return (self.total_B <= self.capacity_B) & (self.host_B <= self.host_capacity_B)

    @property
    def used_frac(self) -> Number:
        """Total over capacity."""
        return self.total_B / self.capacity_B

    def to_dict(self) -> Json:
        """Plain JSON form of one layout."""
        host_capacity_B = float(self.host_capacity_B)
        return {
            **{name: float(getattr(self, name)) for name in CATEGORIES},
            "total_B": float(self.total_B),
            "fullest_at": MOMENTS[int(self.moment)],
            "capacity_B": float(self.capacity_B),
            "host_B": float(self.host_B),
            "host_capacity_B": host_capacity_B if math.isfinite(host_capacity_B) else None,
            "fits": bool(self.fits),
        }


def stage_parameters(job: Job, grid: LayoutGrid, stage: int, held: Counter[LayerKind]) -> RankParameters:
    """Parameters on one rank of device `stage`, which holds the layers `held`, before any ZeRO sharding."""
    model = job.transformer
    if model is None:
        return rank_parameters(all_weights(job.model))
    cut = grid.tp, grid.ep, grid.expert_tp
    first, last, modules = grid.pieces_on(stage)
    found = RankParameters(0.0, 0.0, 0.0)
    for experts, count in _by_experts(held).items():
        found = found + rank_parameters(layer_weights(model, experts), *cut) * count
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


def layer_parameters(job: Job, grid: LayoutGrid) -> dict[bool, Number]:
    """Trained parameters of one layer on one rank, by whether it has experts."""
    model = job.transformer
    if model is None:
        return {}
    kinds, cut = sorted({kind.experts for kind in job.kinds}), (grid.tp, grid.ep, grid.expert_tp)
    return {experts: rank_parameters(layer_weights(model, experts), *cut).total_elems for experts in kinds}


def stage_memory(job: Job, cluster: Cluster, grid: LayoutGrid, stage: int) -> Memory:
    """Memory of one rank of pipeline stage `stage`, for every layout of `grid`."""
    on_host_B, capacity_B = _stage_host_B(job, grid, stage), host_capacity_B(cluster)
    sizes_B, moment = _stage_B(job, grid, stage)
    return Memory(*sizes_B, cluster.device.memory_B, on_host_B, capacity_B, moment)


def memory(job: Job, cluster: Cluster, grid: LayoutGrid) -> Memory:
    """Memory of the fullest stage, for every layout of `grid`, with the categories of that stage."""
    telling = job.telling_stages(grid.stages, grid.placement, grid.split)
    found = [stage_memory(job, cluster, grid, stage) for stage, _ in telling]
    fullest = np.argmax(np.stack(np.broadcast_arrays(*(one.total_B for one in found))), axis=0)
    sizes_B = {name: np.choose(fullest, [getattr(one, name) for one in found]) for name in CATEGORIES}
    return Memory(
        **sizes_B,
        capacity_B=cluster.device.memory_B,
        host_B=host_B(job, grid),
        host_capacity_B=host_capacity_B(cluster),
        moment=np.choose(fullest, [one.moment for one in found]),
    )


def peak_B(job: Job, grid: LayoutGrid) -> Number:
    """Total bytes on the fullest stage, for every layout of `grid`: what a search needs of `memory`."""
    telling = job.telling_stages(grid.stages, grid.placement, grid.split)
    return reduce(np.maximum, [sum(_stage_B(job, grid, stage)[0]) for stage, _ in telling])


def _stage_B(job: Job, grid: LayoutGrid, stage: int) -> tuple[tuple[Number, ...], Whole]:
    """Bytes of one rank of a stage by category, in the order of `Memory`, and when they are there."""
    held = job.device_layers(grid.stages, grid.placement, grid.split)[stage]
    parameters, recipe = stage_parameters(job, grid, stage, held), job.recipe
    weights_B, gradients_B, optimizer_B = _states(recipe, grid, parameters)
    activations_B, loss_B, layer_B = _activations(job, grid, stage, held)
    gathered_B = _gathered(recipe, grid, parameters, max(1, sum(held.values())))
    if recipe.gradients_freed or recipe.foreach_update:
        fresh = recipe.gradients_freed & (grid.microbatches(recipe.batch) == 1)
        elems = parameters.matrix_elems + parameters.other_elems, parameters.expert_elems
        passing = recipe.states.passing_B * recipe.foreach_update
        update_B = _sharded(grid, elems[0] * passing, elems[1] * passing, sharing_of(recipe, grid).sharded)
        early_B, left_B = np.where(fresh, 0.0, gradients_B), np.where(fresh, 0.0, activations_B)
        found = (
            (early_B, activations_B, loss_B + gathered_B),
            (early_B, activations_B, layer_B + gathered_B),
            (gradients_B, left_B, layer_B + gathered_B),
            (gradients_B, 0.0, np.where(grid.offload == KEEP, update_B, 0.0)),
        )
        moment: Whole = np.argmax(np.stack(np.broadcast_arrays(*(sum(one) for one in found))), axis=0)
        gradients_B, activations_B, loose_B = (np.choose(moment, list(sizes)) for sizes in zip(*found, strict=True))
    else:
        moment, loose_B = np.where(loss_B > layer_B, 0, 1), np.maximum(loss_B, layer_B) + gathered_B
    used_B = weights_B + gradients_B + optimizer_B + activations_B + loose_B
    sizes_B = weights_B, gradients_B, optimizer_B, activations_B, loose_B + SLACK_FRAC * used_B + FRAMEWORK_B
    return sizes_B, moment


def _states(recipe: Recipe, grid: LayoutGrid, parameters: RankParameters) -> tuple[Number, Number, Number]:
    """Bytes of parameters, gradients and optimizer states of one rank."""
    states, sharing = recipe.states, sharing_of(recipe, grid)
    matrix, expert = parameters.matrix_elems, parameters.expert_elems
    dense = matrix + parameters.other_elems
    given_up, master_B = np.logical_not(sharing.keeps), states.master_B
    weights_B = _sharded(grid, dense * recipe.parameter_B, expert * recipe.parameter_B, given_up)
    optimizer_B = _sharded(
        grid, matrix * states.matrix_B + parameters.other_elems * states.other_B, expert * states.matrix_B,
        sharing.sharded,
    )  # fmt: skip
    if master_B and not recipe.working_copy:
        # Of offloaded masters a working copy stays.
        masters_B = _sharded(grid, dense * master_B, expert * master_B, sharing.sharded)
        gone = given_up & (grid.offload == KEEP)
        weights_B = np.where(gone, 0.0, weights_B) + np.where(grid.offload == KEEP, masters_B, 0.0)
        optimizer_B = optimizer_B - masters_B
    weights_B = np.where(grid.offload == OFFLOAD_PARAMETERS, 0.0, weights_B)
    gradients_B = _sharded(grid, dense * recipe.gradient_B, expert * recipe.gradient_B, sharing.scatters)
    gradients_B = np.where(gradients_leave(recipe, grid), 0.0, gradients_B)
    if recipe.local_steps > 1:
        optimizer_B = optimizer_B + _sharded(grid, dense * OUTER_STATE_B, expert * OUTER_STATE_B, sharing.sharded)
    return weights_B, gradients_B, np.where(grid.offload == KEEP, optimizer_B, 0.0)


def host_B(job: Job, grid: LayoutGrid) -> Number:
    """Bytes that the rank which offloads most keeps in host memory, for every layout of `grid`."""
    if not np.any(grid.offload != KEEP) and not job.recipe.offload_layers:
        return 0.0
    telling = job.telling_stages(grid.stages, grid.placement, grid.split)
    return reduce(np.maximum, [_stage_host_B(job, grid, stage) for stage, _ in telling])


def _stage_host_B(job: Job, grid: LayoutGrid, stage: int) -> Number:
    """Bytes in host memory of one rank of a stage: offloaded states, and activations of micro-batches in flight."""
    states_B = _stage_host_states_B(job, grid, stage) if np.any(grid.offload != KEEP) else 0.0
    if not job.recipe.offload_layers:
        return states_B
    held = job.device_layers(grid.stages, grid.placement, grid.split)[stage]
    gone_B = [leaving_B(job, grid, chunk, held) for chunk in _chunks(job, grid, stage, held)]
    return states_B + _live_B(job, grid, stage, gone_B)


def _stage_host_states_B(job: Job, grid: LayoutGrid, stage: int) -> Number:
    """Bytes of offloaded states of one rank of a stage: of what it updates, divided from zero 1 on."""
    states, recipe = job.recipe.states, job.recipe
    held = stage_parameters(job, grid, stage, job.device_layers(grid.stages, grid.placement, grid.split)[stage])
    dense, expert = held.matrix_elems + held.other_elems, held.expert_elems
    optimizer_B = held.matrix_elems * states.matrix_B + held.other_elems * states.other_B
    if recipe.local_steps > 1:
        optimizer_B = optimizer_B + dense * OUTER_STATE_B
    divided = grid.zero >= 1
    return host_states_B(
        grid,
        _sharded(grid, dense * recipe.parameter_B, expert * recipe.parameter_B, divided),
        _sharded(grid, dense * recipe.gradient_B, expert * recipe.gradient_B, divided),
        _sharded(grid, optimizer_B, expert * states.matrix_B, divided),
    )


def _sharded(grid: LayoutGrid, dense_B: Number, expert_B: Number, divided: Truth) -> Number:
    """Bytes on a rank of what the shard group shares out where it is `divided`."""
    return dense_B / np.where(divided, grid.shard_ranks, 1) + expert_B / np.where(divided, grid.expert_shard_ranks, 1)


def _by_experts(held: Counter[LayerKind]) -> Counter[bool]:
    """Layers with and without experts: attention windows change neither parameters nor kept bytes."""
    found: Counter[bool] = Counter()
    for kind, count in held.items():
        found[kind.experts] += count
    return found


def piece(recipe: Recipe, grid: LayoutGrid, experts: Experts | None = None) -> Piece:
    """What one rank pushes through a layer at a time; of `experts` the one that gets most of them."""
    return Piece(
        micro_batch=grid.micro_batch,
        seq=recipe.seq,
        tp=grid.tp,
        cp=grid.cp,
        expert_tp=grid.expert_tp,
        capacity_factor=busiest_rank_frac(experts, recipe, grid),
        sequence_parallel=grid.sequence_parallel > 0,
        element_B=recipe.element_B,
        cached_B=recipe.input_B,
        cached_inner_B=recipe.cached_B,
        cached_attention_B=recipe.attention_output_B,
        recompute_modules=recipe.recompute_modules,
        flash_attention=recipe.flash_attention,
        dropout=recipe.dropout,
        fused_elementwise=recipe.fused_elementwise,
    )


def context_blocks(model: Transformer, one: Piece, core_s: tuple[Number, Number] = (0.0, 0.0)) -> Blocks:
    """What ranks of a context-parallel group exchange for a layer whose attention takes `core_s`."""
    attention = model.attention
    head_B, kv_heads = one.tokens * one.element_B, np.maximum(attention.kv_heads / one.tp, 1.0)
    return Blocks(
        key_value_B=head_B * kv_heads * (attention.head_dim + attention.value_dim),
        query_B=head_B * attention.heads / one.tp * attention.head_dim,
        output_B=head_B * attention.heads / one.tp * attention.value_dim,
        kv_heads=kv_heads,
        core_s=core_s,
    )


def _activations(job: Job, grid: LayoutGrid, stage: int, held: Counter[LayerKind]) -> tuple[Number, Number, Number]:
    """(kept activations, what passes at the loss, and in the backward pass of a layer) of a stage in bytes."""
    model, recipe = job.model, job.recipe
    if isinstance(model, ConvNet):
        return convnet_activation_B(model, grid.micro_batch, recipe.element_B), 0.0, 0.0
    one = piece(recipe, grid, model.experts)
    first, last, modules = grid.pieces_on(stage)
    kept, layer_B = _kept(model, one, grid, held, (first, modules))
    if recipe.cp_kind != "ring" and np.any(grid.cp > 1):
        layer_B = layer_B + held_B(recipe.cp_kind, grid.cp, context_blocks(model, one))
    logit_B, loss_B = LOSS_B[recipe.loss_kind], np.zeros(())
    if recipe.spreads(grid.stages):
        # Logits of other micro-batches wait while a layer is in its backward pass.
        barriers = vocabulary.BARRIERS[recipe.vocab_parallel]
        layer_B = layer_B + barriers * spread_activation_B(model, one, grid.pp, logit_B)
    elif last:
        loss_B = (1 + model.mtp_layers) * head_activation_B(model, one, logit_B, recipe.loss_kind == "chunked")
    if gone := recipe.offloaded_of(sum(held.values())):
        kept = kept - leaving_B(job, grid, held)
        waits_B = min(2, gone) * np.maximum.reduce([*_layer_B(model, one, grid, held).values()])
        loss_B, layer_B = loss_B + waits_B, layer_B + waits_B
    kept_B = _live_B(job, grid, stage, chunk_activations_B(job, grid, stage) if grid.split else (kept,))
    return kept_B, loss_B, layer_B


def _live_B(job: Job, grid: LayoutGrid, stage: int, each_B: Sequence[Number]) -> Number:
    """Bytes of all micro-batches in flight, of which each chunk of a stage keeps `each_B`; one where they are alike."""
    microbatches = grid.microbatches(job.recipe.batch)
    if grid.split:
        sizes_B = tuple(float(size_B) for size_B in each_B)
        return peak_held(SCHEDULES[int(grid.schedule)], grid.stages, int(microbatches), stage, sizes_B)
    live: Number = peak_live_by_code(grid.schedule, grid.stages, microbatches, chunks=grid.vpp, stage=stage)
    if job.recipe.spreads(grid.stages):
        live = vocabulary.held(job.recipe.vocab_parallel, live, microbatches)
    # Of two copies, a micro-batch passes one: half of what the device holds, on average over the two directions.
    return each_B[0] * live / grid.copies


def leaving_B(
    job: Job, grid: LayoutGrid, held: Counter[LayerKind], of_stage: Counter[LayerKind] | None = None
) -> Number:
    """Bytes of a micro-batch that go to host memory from the layers `held`, a stage's or some `of_stage`."""
    model, layers = job.transformer, sum((of_stage or held).values())
    gone = job.recipe.offloaded_of(layers)
    if model is None or not gone:
        return 0.0
    each_B, counts = _layer_B(model, piece(job.recipe, grid, model.experts), grid, held), _by_experts(held)
    total_B: Number = sum(count * each_B[experts] for experts, count in counts.items())
    return gone / layers * total_B


def _chunks(job: Job, grid: LayoutGrid, stage: int, held: Counter[LayerKind]) -> list[Counter[LayerKind]]:
    """Layers of each chunk of a stage where they are placed by hand, else all of them."""
    if not grid.split:
        return [held]
    placed = zip(grid.route, job.chunk_layers(grid.split), strict=True)
    return [layers for (device, _), layers in sorted(placed, key=lambda one: one[0]) if device == stage]


def chunk_activations_B(job: Job, grid: LayoutGrid, stage: int) -> tuple[float, ...]:
    """Bytes that each chunk of device `stage` keeps of a micro-batch, of one layout with layers placed by hand."""
    model, found = job.model, {}
    if not isinstance(model, Transformer):
        return ()
    one = piece(job.recipe, grid, model.experts)
    whole = job.device_layers(grid.stages, grid.placement, grid.split)[stage]
    for at, ((device, chunk), held) in enumerate(zip(grid.route, job.chunk_layers(grid.split), strict=True)):
        if device == stage:
            pieces = at == 0, at == grid.mtp_stage % len(grid.split)
            found[chunk] = float(_kept(model, one, grid, held, pieces)[0] - leaving_B(job, grid, held, whole))
    return tuple(found[chunk] for chunk in sorted(found))


def _kept(
    model: Transformer, one: Piece, grid: LayoutGrid, held: Counter[LayerKind], pieces: tuple[bool, bool]
) -> tuple[Number, Number]:
    """(bytes kept of a micro-batch, most that a layer's backward pass needs besides), embedding and modules too."""
    first, modules = pieces
    counts = _by_experts(held)
    if modules and model.mtp_layers:
        # The modules of multi-token prediction are like the last layer.
        counts[model.expert_layers[-1]] += model.mtp_layers
    kept: Number = 0.0
    passing: Number = 0.0
    for experts, count in sorted(counts.items()):
        whole_B, mode_B = _mode_B(model, one, grid, experts)
        kept = kept + count * mode_B
        passing = np.maximum(passing, whole_B - mode_B + passing_gradient_B(model, one, experts))
    return kept + (embedding_activation_B(model, one) if first else 0.0), passing


def _mode_B(model: Transformer, one: Piece, grid: LayoutGrid, experts: bool) -> tuple[Floats, Floats]:
    """Bytes that one layer keeps, without recomputation and with each layout's."""
    modes = [np.asarray(layer_activation_B(model, one, experts, mode)) for mode in (NONE, SELECTIVE, FULL)]
    return modes[0], np.choose(grid.recompute, modes)


def _layer_B(model: Transformer, one: Piece, grid: LayoutGrid, held: Counter[LayerKind]) -> dict[bool, Floats]:
    """Bytes that a layer of each kind `held` keeps, by whether it has experts."""
    return {experts: _mode_B(model, one, grid, experts)[1] for experts in _by_experts(held)}


def _gathered(recipe: Recipe, grid: LayoutGrid, parameters: RankParameters, layers: int) -> Number:
    """Whole parameters of two layers (this and the prefetched one) at zero 3, and one layer's passing gradients."""
    layer, sharing = (parameters.matrix_elems + parameters.expert_elems) / layers, sharing_of(recipe, grid)
    gradients_B = np.where(
        sharing.scatters | gradients_leave(recipe, grid), layer * max(recipe.wire_B, recipe.parameter_B), 0.0
    )
    return gradients_B + np.where(sharing.keeps, 0.0, 2.0 * layer * recipe.parameter_B)
