"""Kernel work that recomputation runs again before the backward pass of a layer.

    full         the layer's forward pass
    selective    of it, the modules that the recipe names (`describe/workload/piece.py`)

Where nothing reads what comes out of the last product (`Habits.recompute_stops`), it is not run again: of a layer that
ends in a dense feed-forward block, the down product and its casts. XLA leaves out what nothing reads; PyTorch's
checkpointing without re-entry stops at the last tensor that the backward pass needs.

Sources: PyTorch 2.1 and later, torch/utils/checkpoint.py (set_checkpoint_early_stop; pull request 90105); JAX,
jax/_src/ad_checkpoint.py (remat_partial_eval removes dead code from what is run again).
"""

from __future__ import annotations

from collections.abc import Iterable

from lockstep.describe.workload import LayerKind, Operation, layer_operations, run_again
from lockstep.price.kernels.clock import Work
from lockstep.price.kernels.layer import LayerWork
from lockstep.price.kernels.operations import CORES, priced
from lockstep.price.kernels.shard import Passes, Shard


def whole_again(shard: Shard, kind: LayerKind, work: LayerWork) -> Work:
    """What full recomputation runs again of a layer with the kernels `work`."""
    return work.forward + _unread(shard, kind, layer_operations(shard.model, kind)) * -1.0


def modules_again(shard: Shard, kind: LayerKind, core: Passes) -> Work:
    """What selective recomputation runs again: forward work of the modules that it throws away."""
    modules = shard.recipe.recompute_modules
    again = run_again(layer_operations(shard.model, kind), modules)
    found = priced(shard, [one for one in again if one.does not in CORES]).forward
    if any(one.does in CORES for one in again):
        found += core.forward
    return found + _unread(shard, kind, again) * -1.0


def stops_early(shard: Shard, kind: LayerKind) -> bool:
    """Whether the down product that ends a layer is not run again, nor added up; a norm or an adapter would read it."""
    model, adapters = shard.model, shard.recipe.adapters
    read = model.norm_placement != "pre" or (adapters is not None and "down_proj" in adapters.targets)
    return shard.recipe.habits.recompute_stops and kind.block == "dense" and model.mlp is not None and not read


def _unread(shard: Shard, kind: LayerKind, operations: Iterable[Operation]) -> Work:
    """Of `operations`, the product with which a recomputed layer need not end."""
    last = [one for one in operations if one.part == "dense" and one.edge == "last"]
    return priced(shard, last).forward if stops_early(shard, kind) else Work()
