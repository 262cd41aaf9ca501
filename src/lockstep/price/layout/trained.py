"""What one rank trains and what it only stores, where adapters are trained beside frozen weights."""

from __future__ import annotations

from collections import Counter

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.describe.workload import (
    LayerKind,
    RankParameters,
    Transformer,
    Weight,
    all_weights,
    is_linear,
    layer_weights,
    rank_parameters,
)
from lockstep.price.layout.formats import BITSANDBYTES
from lockstep.price.layout.held import Counted
from lockstep.price.layout.job import Job
from lockstep.price.layout.kept import by_stored
from lockstep.price.layout.layout import LayoutGrid
from lockstep.price.layout.recipe import Recipe


def trained_parameters(
    job: Job, grid: LayoutGrid, held: Counter[LayerKind], counted: Counted = rank_parameters
) -> RankParameters:
    """Elements of the adapters of the layers `held`, on one rank, of all models that are trained."""
    model, found = job.transformer, RankParameters(0.0, 0.0, 0.0)
    adapters = None if model is None else job.recipe.adapters_on(model)
    if model is None or adapters is None:
        return found
    for kind, count in by_stored(held).items():
        own = adapters.weights(layer_weights(model, kind))
        found = found + counted(own, grid.tp, grid.ep, grid.expert_tp) * count
    # Every process has the rows of prompt tuning.
    found = found + counted(adapters.prompt(model.hidden, 2 if model.encoder_layers else 1))
    return found * job.recipe.objective.models


def buffers_B(job: Job) -> float:
    """Bytes that adapters hold besides what they train, whole on every rank."""
    model = job.transformer
    adapters = None if model is None else job.recipe.adapters_on(model)
    if model is None or adapters is None:
        return 0.0
    return adapters.buffers_B(all_weights(model)) * job.recipe.objective.models


def copied_elems(job: Job, grid: LayoutGrid, stage: int) -> Number:
    """Elements on one rank of what a stage trains whole beside adapters, as copies: tables, and a classifier, which
    PEFT always does (peft 0.21.2, PeftModelForSequenceClassification).
    """
    model, adapters = job.transformer, job.recipe.adapters
    if model is None or adapters is None:
        return 0.0
    first, last, _ = grid.pieces_on(stage)
    every = [*adapters.copies(first, last, vocab=model.vocab, hidden=model.hidden)]
    if last and model.classifier is not None:
        every += model.classifier.weights(model.hidden)
    return job.recipe.objective.models * sum((one.per_rank_elems(grid.tp) for one in every), 0.0)


def quantised(recipe: Recipe, model: Transformer, kind: LayerKind) -> list[Weight]:
    """Matrices of a layer that a quantised base stores narrow. bitsandbytes replaces linear layers alone, so that
    experts that are one parameter stay as they are (transformers 5.24, integrations/bitsandbytes.py).
    """
    adapters = recipe.adapters_on(model)
    left = recipe.base in BITSANDBYTES and adapters is not None and adapters.modules.experts != "apart"
    every = (one for one in layer_weights(model, kind) if is_linear(one))
    return [one for one in every if not left or one.category != "routed_experts"]


def frozen_B(job: Job, grid: LayoutGrid, held: Counter[LayerKind], whole: RankParameters) -> tuple[Number, Number]:
    """(dense, expert) bytes of the weights on one rank that holds `whole`, matrices of blocks in the base's format: of
    every model that is trained.
    """
    model, recipe, models = job.transformer, job.recipe, job.recipe.objective.models
    linear = RankParameters(0.0, 0.0, 0.0)
    if model is not None:
        for kind, count in by_stored(held).items():
            blocks = quantised(recipe, model, kind)
            linear = linear + rank_parameters(blocks, grid.tp, grid.ep, grid.expert_tp) * count
    rest = whole.matrix_elems + whole.other_elems - linear.matrix_elems
    dense_B = rest * recipe.parameter_B + linear.matrix_elems * recipe.base_B
    left = whole.expert_elems - linear.expert_elems
    return models * dense_B, models * (linear.expert_elems * recipe.base_B + left * recipe.parameter_B)


def restored_B(job: Job, grid: LayoutGrid, held: Counter[LayerKind]) -> Number:
    """Bytes of the largest quantised matrix of the layers `held`, brought to the format of the products: one at a time
    is, in either pass (bitsandbytes/autograd/_functions.py, MatMul4Bit; Dettmers et al. 2023, equation 5).
    """
    model, recipe = job.transformer, job.recipe
    if model is None or not recipe.restores:
        return 0.0
    largest: Number = 0.0
    for kind in by_stored(held):
        for one in quantised(recipe, model, kind):
            elems = one.per_rank_elems(grid.tp, 1, grid.expert_tp) / one.copies
            largest = np.maximum(largest, elems * recipe.element_B)
    return largest
