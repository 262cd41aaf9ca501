"""Kernel work of norms, in the way of the software (`stacks/ways.toml`)."""

from __future__ import annotations

from lockstep.kernels.shard import Passes, Shard
from lockstep.kernels.slots import slot_work, way_passes
from lockstep.layout import way
from lockstep.types.arrays import Number


def norm_work(shard: Shard, numbers: Number, count: Number = 1) -> Passes:
    """`count` norms over so many numbers each."""
    return slot_work(shard, "norm", numbers, count) + slot_work(shard, "norm_weight", numbers, count)


def final_norm_work(shard: Shard) -> Passes:
    """The norm before the head, and that of an encoder."""
    return norm_work(shard, shard.loose_tokens * shard.model.hidden, 2 if shard.model.encoder_layers else 1)


def writes_norms(shard: Shard) -> bool:
    """Whether a norm is several operations of PyTorch."""
    return way(shard.recipe, shard.model, "norm").name == "written"


def norm_passes(shard: Shard) -> tuple[float, float]:
    """Passes forward and backward of one norm over elements in half precision."""
    return way_passes(shard.clock, way(shard.recipe, shard.model, "norm"))
