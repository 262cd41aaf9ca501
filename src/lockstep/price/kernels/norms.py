"""Kernel work of norms, in the way of the software (`describe/stacks/ways.toml`)."""

from __future__ import annotations

from dataclasses import replace

from lockstep.base.types.arrays import Number
from lockstep.base.types.saved import FP32_B
from lockstep.describe.workload import modules_of
from lockstep.price.kernels.clock import Work
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.slots import inner_work, stream_work, wider_work
from lockstep.price.layout import way

SLOTS = "norm", "norm_weight"


def norm_work(shard: Shard, numbers: Number, count: Number = 1) -> Passes:
    """`count` norms over so many numbers each, of what products give."""
    if shard.clock.element_B >= FP32_B:
        return _fp32_work(shard, numbers, count)
    part = "rounded" if modules_of(shard.model.model_type).wide_norms else "mixed"
    return sum((inner_work(shard, slot, numbers, count, part=part) for slot in SLOTS), Passes(Work(), Work()))


def stream_norm_work(shard: Shard, numbers: Number, count: Number = 1) -> Passes:
    """The same of the residual stream."""
    if shard.clock.element_B >= FP32_B:
        return _fp32_work(shard, numbers, count)
    return sum((stream_work(shard, slot, numbers, count) for slot in SLOTS), Passes(Work(), Work()))


def _fp32_work(shard: Shard, numbers: Number, count: Number) -> Passes:
    """The same where all is fp32, which counts two passes and is not copied."""
    clock = replace(shard.clock, element_B=FP32_B / 2)
    ways = (way(shard.recipe, shard.model, slot) for slot in SLOTS)
    return sum((wider_work(clock, one, numbers, count) for one in ways), Passes(Work(), Work()))


def final_norm_work(shard: Shard) -> Passes:
    """The norm before the head, and that of an encoder."""
    return stream_norm_work(shard, shard.loose_tokens * shard.model.hidden, 2 if shard.model.encoder_layers else 1)
