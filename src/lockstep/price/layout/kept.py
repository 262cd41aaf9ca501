"""What one rank of a stage keeps for its backward passes, and what passes at the loss and inside a layer, in bytes.

    activations_B(job, grid, stage, held)      (kept by all micro-batches in flight, at the loss, in a layer)

Layers of the recipe's `offload_layers` wait in host memory, two at a time on the device: one in work and one that
travels. Inside a layer a recomputed one holds what it alone would keep, and gradients outgrow what they free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from lockstep.base.types.arrays import Floats, Number
from lockstep.base.types.saved import FP32_B
from lockstep.describe.stacks import Way
from lockstep.describe.workload import (
    ConvNet,
    LayerKind,
    Piece,
    Transformer,
    convnet_activation_B,
    embedding_activation_B,
    head_activation_B,
    last_norm_gradient_B,
    layer_modes_B,
    modules_of,
    passing_gradient_B,
    passing_scores_B,
    spread_activation_B,
)
from lockstep.price.layout.job import Job
from lockstep.price.layout.layout import LayoutGrid
from lockstep.price.layout.losses import across_ranks, loss_B
from lockstep.price.layout.pipelined import pipelined_B
from lockstep.price.layout.recipe import Recipe
from lockstep.price.layout.routing import busiest_rank_frac
from lockstep.price.layout.sharing import one_product, repeats_heads, wide_base, widened
from lockstep.price.layout.ways import ways_of
from lockstep.simulate.parallel.context import Blocks, held_B
from lockstep.simulate.parallel.pipeline import SCHEDULES, peak_held, peak_live_by_code, vocabulary

_NOTHING_B: Number = 0.0


def by_stored(held: Counter[LayerKind]) -> Counter[LayerKind]:
    """Layers by what they store: attention windows change neither parameters nor kept bytes."""
    found: Counter[LayerKind] = Counter()
    for kind, count in held.items():
        found[kind.stored] += count
    return found


def piece(recipe: Recipe, grid: LayoutGrid, model: Transformer) -> Piece:
    """What one rank pushes through a layer at a time; of ranks with experts the one that gets most of them."""
    ways = ways_of(recipe, model)
    return Piece(
        micro_batch=grid.micro_batch,
        seq=recipe.passed_seq,
        tp=grid.tp,
        cp=grid.cp,
        expert_tp=grid.expert_tp,
        ep=grid.ep,
        capacity_factor=busiest_rank_frac(model.experts, recipe, grid),
        sequence_parallel=grid.sequence_parallel > 0,
        element_B=recipe.element_B,
        cached_B=recipe.input_B,
        cached_inner_B=recipe.cached_B,
        cached_attention_B=recipe.attention_output_B,
        recompute_modules=recipe.recompute_modules,
        adapters=recipe.adapters_on(model),
        half_adapters=recipe.habits.half_adapters or recipe.casts_adapters,
        fused_adapters="again" in ways["adapters"].numbers,
        flash_attention=recipe.flash_attention,
        dropout=recipe.dropout,
        own_casts=widened(recipe, grid) | (recipe.habits.autocast and recipe.adapters is not None),
        wide_stream=widened(recipe, grid),
        inputs_kept=recipe.habits.base_inputs_kept and recipe.base is not None,
        gradients_apart=recipe.habits.gradients_apart,
        gathers_kept=not recipe.habits.gathers_again,
        saves={slot: chosen.saves for slot, chosen in ways.items()},
        weighed_B=_weighed_B(recipe, grid, model, ways["permutation"]),
        scored_B=ways["scores"].numbers.get("passing_B", 0.0) * (not recipe.flash_attention),
        joint_qkv=recipe.habits.joint_qkv or (recipe.habits.own_projections and one_product(recipe, model, "qkv")),
        written=ways["rotary"].name == "written",
        repeated_heads=repeats_heads(recipe),
        wide_base=wide_base(recipe, grid, model.norm),
        fused_elementwise=recipe.fused_elementwise,
    )


def _weighed_B(recipe: Recipe, grid: LayoutGrid, model: Transformer, chosen: Way) -> Number:
    """Bytes of a number of what experts give while gradients of the weights it is multiplied by are made."""
    several, half_B = chosen.numbers.get("weighing", 0.0), recipe.element_B
    if not several:
        return chosen.numbers.get("passing_B", 0.0)
    if modules_of(model.model_type).wide_router and half_B < FP32_B:
        return several * FP32_B + half_B
    return several * np.where(widened(recipe, grid), FP32_B, half_B)


def context_blocks(model: Transformer, one: Piece, core_s: tuple[Number, Number] = (0.0, 0.0)) -> Blocks:
    """What ranks of a context-parallel group exchange for a layer whose attention takes `core_s`."""
    attention = model.attention
    head_B = one.tokens * one.element_B
    kv_heads = np.maximum((attention.heads if one.repeated_heads else attention.kv_heads) / one.tp, 1.0)
    return Blocks(
        key_value_B=head_B * kv_heads * (attention.head_dim + attention.value_dim),
        query_B=head_B * attention.heads / one.tp * attention.head_dim,
        output_B=head_B * attention.heads / one.tp * attention.value_dim,
        kv_heads=kv_heads,
        core_s=core_s,
    )


def activations_B(job: Job, grid: LayoutGrid, stage: int, held: Counter[LayerKind]) -> tuple[Number, Number, Number]:
    """(kept activations, what passes at the loss, and in the backward pass of a layer) of a stage in bytes."""
    model, recipe = job.model, job.recipe
    if isinstance(model, ConvNet):
        return convnet_activation_B(model, grid.micro_batch, recipe.element_B), 0.0, 0.0
    one = piece(recipe, grid, model)
    first, last, modules = grid.pieces_on(stage)
    kept, layer_B = _kept(model, recipe, one, grid, held, (first, modules))
    if recipe.cp_kind != "ring" and np.any(grid.cp > 1):
        layer_B = layer_B + held_B(recipe.cp_kind, grid.cp, context_blocks(model, one))
    across = across_ranks(recipe.loss_kind, recipe.habits.distributed_tensors)
    logit_B, at_loss_B = np.where(grid.tp > 1, loss_B(across), loss_B(recipe.loss_kind)), _NOTHING_B
    if recipe.spreads(grid.stages):
        # Logits of other micro-batches wait while a layer is in its backward pass.
        barriers = vocabulary.BARRIERS[recipe.vocab_parallel]
        layer_B = layer_B + barriers * spread_activation_B(model, one, grid.pp, logit_B)
    elif last:
        at_loss_B = (1 + model.mtp_layers) * head_activation_B(model, one, logit_B, recipe.loss_kind)
        at_loss_B = at_loss_B + _summed_head_B(model, recipe, one)
    if gone := recipe.offloaded_of(sum(held.values())):
        kept = kept - leaving_B(job, grid, held)
        waits_B = min(2, gone) * np.maximum.reduce([*_layer_B(model, one, grid, held).values()])
        at_loss_B, layer_B = at_loss_B + waits_B, layer_B + waits_B
    kept_B = live_B(job, grid, stage, chunk_activations_B(job, grid, stage) if grid.split else (kept,))
    always_B, joined_B = pipelined_B(job, grid, stage)
    # Outputs are joined when all passes have ended.
    return kept_B + always_B, at_loss_B, np.maximum(layer_B, joined_B - kept_B)


def _summed_head_B(model: Transformer, recipe: Recipe, one: Piece) -> Number:
    """Where a loss takes its tokens in pieces, the gradient of the head's weights for one, and for those before."""
    if recipe.loss_kind != "pieces" or recipe.adapters is not None or not model.has_head:
        return 0.0
    count = 2.0 if recipe.habits.gradients_freed or recipe.update_in_backward else 1.0
    return count * model.vocab / one.tp * model.hidden * recipe.gradient_B


def live_B(job: Job, grid: LayoutGrid, stage: int, each_B: Sequence[Number]) -> Number:
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
    each_B, counts = _layer_B(model, piece(job.recipe, grid, model), grid, held), by_stored(held)
    total_B: Number = sum(count * each_B[kind] for kind, count in counts.items())
    return gone / layers * total_B


def chunks_of(job: Job, grid: LayoutGrid, stage: int, held: Counter[LayerKind]) -> list[Counter[LayerKind]]:
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
    one = piece(job.recipe, grid, model)
    whole = job.device_layers(grid.stages, grid.placement, grid.split)[stage]
    for at, ((device, chunk), held) in enumerate(zip(grid.route, job.chunk_layers(grid.split), strict=True)):
        if device == stage:
            pieces = at == 0, at == grid.mtp_stage % len(grid.split)
            found[chunk] = float(
                _kept(model, job.recipe, one, grid, held, pieces)[0] - leaving_B(job, grid, held, whole)
            )
    return tuple(found[chunk] for chunk in sorted(found))


def _kept(
    model: Transformer, recipe: Recipe, one: Piece, grid: LayoutGrid, held: Counter[LayerKind],
    pieces: tuple[bool, bool],
) -> tuple[Number, Number]:  # fmt: skip
    """(bytes kept of a micro-batch, most that a layer's backward pass needs besides), embedding and modules too."""
    first, modules = pieces
    counts = by_stored(held)
    if modules and model.mtp_layers:
        # The modules of multi-token prediction are like the last layer.
        counts[model.kinds[-1].stored] += model.mtp_layers
    kept: Number = 0.0
    passing: Number = last_norm_gradient_B(model, one) if model.final_norm else 0.0
    again = again_frac(recipe, grid, held)
    for kind, count in sorted(counts.items()):
        whole_B, mode_B = _mode_B(model, one, grid, kind)
        kept = kept + count * (mode_B + (1.0 - again) * (whole_B - mode_B))
        inside_B = whole_B - mode_B + passing_gradient_B(model, one, kind)
        if one.adapters is not None:
            # With frozen weights FSDP still holds what the layer before needed: inferred from all rows of fms_adapters.
            inside_B = inside_B * np.where(grid.zero == 3, 2.0, 1.0)
        if one.scored_B:
            inside_B = np.maximum(inside_B, whole_B - mode_B + passing_scores_B(model, one, kind))
        passing = np.maximum(passing, inside_B)
    return kept + (embedding_activation_B(model, one) if first else 0.0), passing


def again_frac(recipe: Recipe, grid: LayoutGrid, held: Counter[LayerKind]) -> Number:
    """Of the layers `held` by a stage, or by a chunk where they are placed by hand, the share that is recomputed."""
    if not recipe.recompute_layers or not held:
        return 1.0
    return recipe.recomputed_frac(sum(held.values()), 1 if grid.split else grid.vpp)


def _mode_B(model: Transformer, one: Piece, grid: LayoutGrid, kind: LayerKind) -> tuple[Floats, Floats]:
    """Bytes that one layer keeps, without recomputation and with each layout's."""
    modes = [np.asarray(size_B) for size_B in layer_modes_B(model, one, kind)]
    return modes[0], np.choose(grid.recompute, modes)


def _layer_B(model: Transformer, one: Piece, grid: LayoutGrid, held: Counter[LayerKind]) -> dict[LayerKind, Floats]:
    """Bytes that a layer of each kind `held` keeps."""
    return {kind: _mode_B(model, one, grid, kind)[1] for kind in by_stored(held)}
