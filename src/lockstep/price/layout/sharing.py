"""`sharing_of`: when the sharded states of a grid of layouts travel, and which gradients go to the host."""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Bools, Number, Truth
from lockstep.base.types.saved import FP32_B
from lockstep.describe.workload import Transformer, modules_of
from lockstep.describe.workload.graph import has_gate
from lockstep.price.layout.formats import BITSANDBYTES
from lockstep.price.layout.layout import LayoutGrid
from lockstep.price.layout.recipe import Recipe
from lockstep.price.layout.ways import recipe_traits
from lockstep.simulate.parallel.data.coordinator import read_limits
from lockstep.simulate.parallel.data.sharing import Sharing, sharing


def sharing_of(recipe: Recipe, grid: LayoutGrid) -> Sharing:
    """When states travel, for every layout of `grid`, which must share their number of stages."""
    summed, zero = sums_whole(recipe, grid), np.maximum(grid.zero, divides_states(recipe, grid))
    return sharing(zero, grid.stages > 1, recipe.sharding, recipe.gradient_sync, recipe.reshard, summed)


def divides_states(recipe: Recipe, grid: LayoutGrid) -> Truth:
    """Where optimizer states are divided among ranks: from ZeRO 1 on, and at 0 by software that does so in bf16.

    Of Lucie-7B on 8 to 128 A100, nine of ten pairs of steps at stages 0 and 1 took the same within 9 %.
    """
    found: Truth = (grid.zero >= 1) | (recipe.habits.divided_bf16_states and recipe.dtype == "bf16")
    return found


def sums_whole(recipe: Recipe, grid: LayoutGrid) -> Truth:
    """Where shards of parameters have whole gradients, as these add up over micro-batches before they are reduced."""
    if not recipe.habits.summed_once or recipe.gradient_sync is not None:
        return np.zeros((), dtype=bool)
    found: Truth = (grid.zero >= 2) & (grid.microbatches(recipe.batch) > 1)
    return found


def widened(recipe: Recipe, grid: LayoutGrid) -> Truth:
    """Where activations are fp32 and products cast what they read (torch.autocast): not where FSDP shards parameters,
    nor above frozen ones in half precision.
    """
    wide = recipe.adapters is None or (recipe.parameter_B >= FP32_B and recipe.base is None)
    return recipe.habits.autocast & wide & (grid.zero < 3)


def wide_base(recipe: Recipe, grid: LayoutGrid, norm: str) -> Truth:
    """Where quantised matrices of bitsandbytes read fp32 under torch.autocast, and so give it: PEFT has prepared a base
    that is not sharded, or the model's norm is LayerNorm, which autocast runs in fp32.
    """
    around = recipe.software.ways["adapters"].of(recipe_traits(recipe))
    if not recipe.habits.autocast or recipe.base not in BITSANDBYTES or "again" in around.numbers:
        return np.zeros((), dtype=bool)
    return (recipe.habits.prepared_base & (grid.zero < 3)) | (norm == "layernorm")


def repeats_heads(recipe: Recipe) -> bool:
    """Whether keys and values are repeated for every query head, as where attention is written out."""
    written = recipe.software.ways["scores"].name == "written"
    return recipe.habits.repeated_heads or (written and not recipe.flash_attention)


def one_product(recipe: Recipe, model: Transformer, word: str) -> bool:
    """Whether queries, keys and values (`qkv`), or a gate and what it multiplies (`gate_up`), are one product. The
    class of transformers says so where it is known; others have one matrix of queries, keys and values without a gate.
    """
    habits = recipe.habits
    if not habits.own_projections or (word == "qkv" and habits.joint_qkv):
        return True
    return word in modules_of(model.model_type).joint if model.model_type else not has_gate(model)


def gradients_pass(recipe: Recipe, grid: LayoutGrid) -> Truth:
    """Where gradients are there of one layer at a time: they go to the host, or parameters are updated at once."""
    return gradients_leave(recipe, grid) | recipe.update_in_backward


def in_buckets(recipe: Recipe, grid: LayoutGrid) -> Truth:
    """Where gradients have a second copy, in the buckets in which ranks with the same parameters sum them."""
    found: Truth = recipe.habits.gradient_buckets & (grid.zero == 0) & (grid.data_ranks > 1)
    return found


def reduction_buffers_B(recipe: Recipe, grid: LayoutGrid) -> tuple[Number, Number]:
    """Bytes that DeepSpeed gathers gradients in to reduce them: (in backward passes, always).

    At stages 1 and 2 a buffer is there while a micro-batch goes back, two where reductions overlap with it; at stage 3
    one from the start (0.19.3, runtime/zero/stage_1_and_2.py, setup_buckets, _release_ipg_buffers; stage3.py,
    _setup_for_real_optimizer). A pipeline's engine has none in bf16 (bf16_optimizer.py), nor do BigScience's peaks of
    2021 in fp16 show one.
    """
    if recipe.sharding != "deepspeed" or recipe.habits.divided_bf16_states:
        return 0.0, 0.0
    size_B = read_limits(recipe.software.options.gather_limits).reduce_bucket_size * recipe.parameter_B
    passing = np.where((grid.zero >= 1) & (grid.zero < 3), size_B * (1 + recipe.overlap_dp), 0.0)
    return passing, np.where(grid.zero == 3, size_B, 0.0)


def gradients_leave(recipe: Recipe, grid: LayoutGrid) -> Truth:
    """Where gradients go to host memory after every micro-batch."""
    if not np.any(grid.on_host):
        return np.zeros((), dtype=bool)
    alone = grid.data_ranks * grid.copies == 1
    found: Bools = grid.on_host & (sharing_of(recipe, grid).scatters | alone)
    return found
