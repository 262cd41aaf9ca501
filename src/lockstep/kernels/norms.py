"""Kernel work of norms and of rotary embedding, in the way of the software (`stacks/ways.toml`)."""

from __future__ import annotations

from lockstep.kernels.clock import Work
from lockstep.kernels.shard import Passes, Shard
from lockstep.kernels.slots import slot_work, way_passes
from lockstep.layout import way
from lockstep.types.arrays import Number
from lockstep.workload import DENSE, LayerKind


def norms(shard: Shard, kind: LayerKind = DENSE) -> Passes:
    """The norms of a layer, one for each block."""
    return _norms(shard, shard.loose_tokens * shard.model.hidden, kind.residual_blocks)


def final_norm_work(shard: Shard) -> Passes:
    """The norm before the head, and that of an encoder."""
    return _norms(shard, shard.loose_tokens * shard.model.hidden, 2 if shard.model.encoder_layers else 1)


def query_key_norms(shard: Shard, elements: Number) -> Passes:
    """The norms on so many elements of queries and keys."""
    return _norms(shard, elements, 1) + Passes(Work(kernels=1), Work(kernels=2))


def writes_norms(shard: Shard) -> bool:
    """Whether a norm is several operations of PyTorch."""
    return way(shard.recipe, shard.model, "norm").name == "written"


def norm_passes(shard: Shard) -> tuple[float, float]:
    """Passes forward and backward of one norm over elements in half precision."""
    return way_passes(shard.clock, way(shard.recipe, shard.model, "norm"))


def rotary_work(shard: Shard, elements: Number) -> Passes:
    """Rotary embedding of so many elements of queries and keys."""
    return slot_work(shard, "rotary", elements)


def _norms(shard: Shard, elements: Number, count: int) -> Passes:
    """`count` norms over so many elements each."""
    return slot_work(shard, "norm", elements, count) + slot_work(shard, "norm_weight", elements, count)
