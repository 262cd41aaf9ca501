"""Kernel work of norms, in the way of the software (`describe/stacks/ways.toml`)."""

from __future__ import annotations

from lockstep.base.types.arrays import Number
from lockstep.describe.workload import modules_of
from lockstep.price.kernels.clock import Work
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.slots import inner_work, stream_work


def norm_work(shard: Shard, numbers: Number, count: Number = 1) -> Passes:
    """`count` norms over so many numbers each, of what products give."""
    part = "rounded" if modules_of(shard.model.model_type).wide_norms else "mixed"
    both = (inner_work(shard, slot, numbers, count, part=part) for slot in ("norm", "norm_weight"))
    return sum(both, Passes(Work(), Work()))


def stream_norm_work(shard: Shard, numbers: Number, count: Number = 1) -> Passes:
    """The same of the residual stream."""
    return stream_work(shard, "norm", numbers, count) + stream_work(shard, "norm_weight", numbers, count)


def final_norm_work(shard: Shard) -> Passes:
    """The norm before the head, and that of an encoder."""
    return stream_norm_work(shard, shard.loose_tokens * shard.model.hidden, 2 if shard.model.encoder_layers else 1)
