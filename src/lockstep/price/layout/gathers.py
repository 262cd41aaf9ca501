"""`sharing_in`: when the sharded states of a grid of layouts travel, and how much DeepSpeed's limits leave whole.

The model's modules stand in the order in which transformers' models call them: a layer of norm, mixer, norm and block,
each with what is inside. All experts of a rank are one module (deepspeed.utils.set_z3_leaf_modules).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import count, groupby
from typing import TypeAlias

import numpy as np

from lockstep.describe.workload import (
    FULL,
    LayerKind,
    Model,
    Transformer,
    Weight,
    all_weights,
    embedding_weights,
    head_weights,
    layer_weights,
    mtp_weights,
)
from lockstep.price.layout.job import Job
from lockstep.price.layout.layout import LayoutGrid
from lockstep.price.layout.sharing import sharing_of
from lockstep.simulate.parallel.data.coordinator import Gathered, Limits, Module, Tensor, gathered, read_limits
from lockstep.simulate.parallel.data.sharing import Sharing

BLOCKS = ("mlp", "router", "routed_experts", "shared_experts")
Cut: TypeAlias = tuple[int, int, int]
"""Ranks among which weights are cut: tp, ep, expert tp."""
NOT_ASKED = Gathered(1.0, 1.0, 0.0, 0.0, 0.0)
EMPTY = Module()


def sharing_in(job: Job, grid: LayoutGrid) -> Sharing:
    """When states travel, for every layout of `grid`, which must share their number of stages; with the shares of the
    parameters that DeepSpeed gathers and holds at zero 3.
    """
    found, recipe = sharing_of(job.recipe, grid), job.recipe
    if recipe.sharding != "deepspeed" or not recipe.reshard or grid.stages > 1 or not np.any(grid.zero == 3):
        return found
    cut = np.broadcast_arrays(grid.tp, grid.ep, grid.expert_tp, grid.recompute == FULL, grid.zero == 3)
    rows, where = np.unique(np.stack([one.ravel() for one in cut]), axis=1, return_inverse=True)
    again, limits = recipe.recompute_layers or job.layers, read_limits(recipe.software.options.gather_limits)
    shares = [
        _gathered(job.model, (tp, ep, etp), again * redone, limits) if third else NOT_ASKED
        for tp, ep, etp, redone, third in rows.T.tolist()
    ]
    each = ((one.forward_frac, one.backward_frac, one.once_frac, one.held_frac) for one in shares)
    forward, backward, once, held = np.array(list(each)).T[:, where.ravel()].reshape(4, *cut[0].shape)
    return replace(found, forward_frac=forward, backward_frac=backward, once_frac=once, held_frac=held)


@lru_cache(maxsize=1024)
def _gathered(model: Model, cut: Cut, redone: int, limits: Limits) -> Gathered:
    return gathered(modules_of(model, cut, redone), limits)


def modules_of(model: Model, cut: Cut = (1, 1, 1), redone: int = 0) -> Module:
    """The modules of a model on one rank, whose first `redone` layers run again in their backward pass."""
    keys = count()

    def own(weights: Iterable[Weight], looked_up: bool = False) -> list[Module]:
        """One module for every weight with its bias."""
        found = []
        for _, some in groupby(weights, _module_name):
            tensors = (Tensor(_elems(one, cut), next(keys), max(1, one.copies // cut[1])) for one in some)
            found.append(Module(tuple(tensors), looked_up=looked_up))
        return found

    if not isinstance(model, Transformer):
        return Module(inside=tuple(own(all_weights(model))))

    def layer(kind: LayerKind, recomputed: bool) -> Module:
        weights = layer_weights(model, kind)
        norms = own(one for one in weights if one.name.startswith("norm "))
        block = own(one for one in weights if one.category in BLOCKS)
        mixer = own(one for one in weights if one.category not in BLOCKS and not one.name.startswith("norm "))
        block[1:1] = [EMPTY]  # The activation.
        inside = (*norms[:1], Module(inside=tuple(mixer)), *norms[1:2], Module(inside=tuple(block)), *norms[2:])
        return Module(inside=inside, layer=True, recomputed=recomputed)

    tables, ends = own(embedding_weights(model), looked_up=True), own(head_weights(model))
    layers = [layer(kind, number < redone) for number, kind in enumerate(model.kinds)]
    modules = [Module(inside=tuple(own(mtp_weights(model)))) for _ in range(model.mtp_layers)]
    head = [Module(tables[0].tensors[:1])] if model.has_head and model.tied_embeddings else []
    normed = int(model.final_norm)
    body = Module(inside=(*tables, EMPTY, *layers, *ends[:normed]))
    return Module(inside=(body, *modules, *ends[normed:], *head))


def _module_name(weight: Weight) -> str:
    """A name that the tensors of one module share."""
    return "experts" if weight.category == "routed_experts" else weight.name.removesuffix(" bias")


def _elems(weight: Weight, cut: Cut) -> float:
    return float(weight.per_rank_elems(*cut))
