"""What is there at some moments of a step alone: casts of weights, gradients that are made already, a tensor's update.

    moment         casts of autocast                         gradients of one micro-batch
    the loss       kept, and of a forward pass that ends     none
    a layer's      kept, or where it runs again its own      the head's
    the last       likewise                                  all but this layer's and the embedding's
    the end        -                                         all, and once more the table's that is added to

torch.autocast keeps casts of trained fp32 weights while a forward pass runs (aten/src/ATen/autocast_mode.cpp,
cached_cast); graphs keep those, and of frozen ones, that gradients of inputs need.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number
from lockstep.base.types.saved import FP32_B
from lockstep.describe.workload import (
    FULL,
    LayerKind,
    Transformer,
    Weight,
    embedding_weights,
    head_weights,
    layer_weights,
    modules_of,
    rank_parameters,
    stored_weights,
)
from lockstep.price.layout.job import Job
from lockstep.price.layout.kept import by_stored
from lockstep.price.layout.layout import LayoutGrid
from lockstep.price.layout.recipe import Recipe
from lockstep.price.layout.sharing import widened

TILED = "tiled"


@dataclass(frozen=True, slots=True)
class Casts:
    """Bytes of weights in the format of the products, beside the fp32 ones."""

    kept_B: Number = 0.0
    """Of layers that are not run again."""
    passed_B: Number = 0.0
    """At the end of a forward pass besides."""
    head_B: Number = 0.0
    """Of the head, at the loss."""
    layer_B: Number = 0.0
    """Of a layer that runs again."""


def casts(job: Job, grid: LayoutGrid, held: Counter[LayerKind], last: bool) -> Casts:
    """Casts of the weights of the layers `held`, of a head where it is there, and of adapters in fp32. Experts that are
    one parameter are not cast (transformers 5.24, integrations/moe.py: `grouped_mm` is not autocast-enabled).
    """
    model, recipe = job.transformer, job.recipe
    if model is None:
        return Casts()
    wide, adapted = widened(recipe, grid), _casts_adapters(recipe)
    if not (adapted or np.any(wide)):
        return Casts()
    layers, own = _cast_weights(model, recipe, grid, held), _cast_adapters(model, recipe, grid, held, adapted)
    again, models = grid.recompute == FULL, recipe.objective.models
    ends = np.where(again, 1.0, 0.0) if not recipe.objective.frozen else 1.0
    numbers = by_stored(held)
    weights_B = sum((count * layers[kind] for kind, count in numbers.items()), 0.0 * grid.tp)
    adapters_B = sum((count * own[kind] for kind, count in numbers.items()), 0.0 * grid.tp)
    tiled = recipe.loss_kind == TILED
    head_B = model.vocab / grid.tp * model.hidden * recipe.element_B * (last and model.has_head and not tiled)
    largest_B = np.maximum.reduce([np.asarray(layers[kind] * wide + own[kind]) for kind in layers]) if layers else 0.0
    return Casts(
        kept_B=models * (weights_B * wide + adapters_B) * ~again,
        passed_B=(weights_B * wide * (recipe.adapters is None) + adapters_B) * ends,
        head_B=head_B * wide,
        layer_B=largest_B * again,
    )


def _casts_adapters(recipe: Recipe) -> bool:
    """Whether autocast casts adapters: those that PEFT leaves in fp32."""
    narrow = recipe.habits.half_adapters or recipe.casts_adapters or recipe.element_B >= FP32_B
    return recipe.habits.autocast and recipe.adapters is not None and not narrow


def _cast_weights(
    model: Transformer, recipe: Recipe, grid: LayoutGrid, held: Counter[LayerKind]
) -> dict[LayerKind, Number]:
    """Bytes of the casts of a layer's own matrices."""
    apart = modules_of(model.model_type).experts == "apart"
    each: dict[LayerKind, Number] = {}
    for kind in by_stored(held):
        found = rank_parameters([one for one in layer_weights(model, kind) if one.is_matrix], grid.tp, grid.ep)
        each[kind] = (found.matrix_elems + found.expert_elems * apart) * recipe.element_B
    return each


def _cast_adapters(
    model: Transformer, recipe: Recipe, grid: LayoutGrid, held: Counter[LayerKind], adapted: bool
) -> dict[LayerKind, Number]:
    """Bytes of the casts of a layer's adapters."""
    adapters = recipe.adapters_on(model) if adapted else None
    if adapters is None:
        return dict.fromkeys(by_stored(held), 0.0)
    each = {kind: adapters.weights(layer_weights(model, kind)) for kind in by_stored(held)}
    return {
        kind: rank_parameters(own, grid.tp, grid.ep, grid.expert_tp).total_elems * recipe.element_B
        for kind, own in each.items()
    }


@dataclass(frozen=True, slots=True)
class Made:
    """Shares of a stage's gradients, by when they are made."""

    head_frac: Number = 0.0
    """Of the head, before all others."""
    late_frac: Number = 0.0
    """Of a layer and the embedding, after all others."""
    again_frac: Number = 0.0
    """At the end besides, of tables: that of the look-up and, where the head has the same table, its gradient and the
    sum of both (PyTorch, torch/csrc/autograd/input_buffer.cpp), until they are accumulated."""
    added_frac: Number = 0.0
    """The same where gradients of other micro-batches are there."""


def gradients_made(job: Job, grid: LayoutGrid, held: Counter[LayerKind], ends: tuple[bool, bool]) -> Made:
    """When a stage that holds these layers, and maybe an embedding and a head, has made which of its gradients."""
    model = job.transformer
    if model is None or job.recipe.adapters is not None:
        return Made(late_frac=1.0 / max(1, sum(held.values())) if model else 0.0)

    def of(weights: tuple[Weight, ...]) -> Number:
        return rank_parameters(weights, grid.tp, grid.ep, grid.expert_tp).total_elems

    layers = {kind: of(layer_weights(model, kind)) for kind in by_stored(held)}
    table = of(embedding_weights(model)) if ends[0] else 0.0
    head = of(head_weights(model)) if ends[1] else 0.0
    total = sum((count * layers[kind] for kind, count in by_stored(held).items()), 0.0) + table + head
    least = min((float(np.min(one)) for one in layers.values()), default=0.0)
    tied = model.tied_embeddings and model.has_head and ends[1]
    first = table if tied else 0.0
    again = (2.0 * table if tied else 0.0) / total
    return Made((head + first) / total, (least + table - first) / total, again, again + table / total)


def updating_B(job: Job, grid: LayoutGrid, held: Counter[LayerKind], ends: tuple[bool, bool]) -> Number:
    """Bytes that the update of the largest tensor holds besides, one tensor after another (`Optimizer.alone_B`)."""
    model, recipe = job.transformer, job.recipe
    if model is None or not recipe.states.alone_B or recipe.update_in_backward:
        return 0.0
    adapters = recipe.adapters_on(model)
    modules = modules_of(model.model_type)
    kinds = by_stored(held)
    found = [stored_weights(tuple(layer_weights(model, kind)), modules) for kind in kinds]
    if adapters is not None:
        found = [adapters.weights(layer_weights(model, kind)) for kind in kinds]
    elif ends[0] or ends[1]:
        found.append((*embedding_weights(model), *head_weights(model)))
    each_B = recipe.states.alone_B
    if recipe.adapters is not None:
        each_B = recipe.states.alone_B if recipe.of_adapters.parameter_B < FP32_B else 2 * FP32_B
    return max((math.prod(one.shape) for weights in found for one in weights), default=0) * each_B / grid.tp
