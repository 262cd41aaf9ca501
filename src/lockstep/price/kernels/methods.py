"""Kernel work of PEFT's methods other than LoRA, and of DoRA besides it.

Passes are over numbers in half precision, so that reading or writing fp32 is two of them: PEFT runs an operation after
another, in fp32 but for products under torch.autocast.

    dora     outputs forward    W's times its scale 3, A and B's times theirs 4 (autocast: 3, times s 2 more), their
                                sum 6; under autocast its sum with W's 5 for 3, to half 3
             outputs backward   both scales' gradients 6 + 5, their sums 4, those of both outputs 8, to half 3, added 3
             matrix forward     the identity written and read, what A and B make of it, W in fp32, the sum, its norm
    vera     outputs backward   the gradient of b 6 and its sum 2; one gradient product for each of the two products
    ia3      forward            times the scale 3, to half 3; of an input to fp32 3 first, times the scale 4
             backward           to fp32 3, times the scale 4, to half 3, the scale's gradient 5 and its sum 2; of an
                                input one more
    oft      inputs forward     to fp32 3, rotated blocks in their order again 4, to half 3
             inputs backward    the same, added to the stream's 3
             rotation           28 passes of fp32 over in x k numbers forward, and about twice as many back, with three
                                products of blocks, and six

Read in peft 0.21.2, peft/tuners/lora/dora.py, vera/layer.py, ia3/layer.py and oft/layer.py; not measured on devices.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.describe.workload import Adapters, Weight
from lockstep.describe.workload.adapters import ROWS
from lockstep.price.kernels.clock import Work
from lockstep.price.kernels.shard import Passes, Shard

FP32_PASSES = 2.0
EYE_PASSES, DENSE_PASSES = 4.0, 17.0
"""DoRA's of the identity, and of numbers like W: made 2, W to fp32 3, scaled 4, added 6, read for the norm 2."""
ROTATION_PASSES = 56.0, 112.0
"""Of OFT's rotation, in half precision: twice those of fp32."""
MAGNITUDES = {False: (13.0, 29.0), True: (19.0, 31.0)}
"""DoRA's beyond LoRA's over outputs, without and with autocast."""


def method_work(shard: Shard, adapters: Adapters, weight: Weight, rows: Number, count: Number) -> Passes:
    """What the method runs beside `count` matrices that so many rows pass each, the products of A and B apart."""
    method, own = adapters.method, not adapters.joins(weight)
    ways = weight.ways(shard.grid.tp, shard.grid.expert_tp)
    by_rows = weight.name in ROWS
    inputs = weight.shape[0] / ways if by_rows else weight.shape[0]
    outputs = weight.shape[1] if by_rows else weight.shape[1] / ways
    read, given = rows * inputs * count, rows * outputs * count
    if method.dora:
        return _magnitudes(shard, adapters, (rows, inputs, outputs, count), own)
    if method.name == "vera":
        return shard.operations(given, 0.0, 8.0, 0, 2)
    if method.name == "oft" and own:
        return _rotation(shard, (rows, inputs, count), method.block_on(weight.shape[0]))
    if method.name == "ia3" and method.scales_input(weight):
        return shard.operations(read, 10.0, 18.0, 3, 5) if own else Passes(Work(), Work())
    return shard.operations(given, 6.0, 17.0, 2, 5) if method.name == "ia3" else Passes(Work(), Work())


def _autocast(shard: Shard) -> bool:
    asked = shard.recipe
    return asked.habits.autocast


def _magnitudes(shard: Shard, adapters: Adapters, sides: tuple[Number, Number, Number, Number], own: bool) -> Passes:
    rows, inputs, outputs, count = sides
    forward, backward = MAGNITUDES[_autocast(shard)]
    found = shard.operations(rows * outputs * count, forward, backward, 4, 9)
    rank = adapters.rank
    # A joined linear layer has one identity, which passes A once.
    eye = shard.operations(inputs * inputs * count * own, EYE_PASSES, 0.0, own, 0)
    dense = shard.operations(inputs * outputs * count, DENSE_PASSES, 0.0, 6, 0)
    made = shard.clock.matmul(inputs, outputs, rank, count)
    if own:
        made += shard.clock.matmul(inputs, rank, inputs, count)
    found += eye + dense + Passes(made, Work())
    return found + _base_again(shard, sides) if adapters.dropout_frac else found


def _base_again(shard: Shard, sides: tuple[Number, Number, Number, Number]) -> Passes:
    """The frozen product once more, of what a dropout leaves, and its input's gradient: fp32 without autocast."""
    rows, inputs, outputs, count = sides
    again = Passes(shard.clock.matmul(rows, outputs, inputs, count), shard.clock.matmul(rows, inputs, outputs, count))
    peaks = shard.clock.device.peak_flops
    if _autocast(shard) or "fp32" not in peaks:
        return again
    slower = max(1.0, shard.clock.peak(shard.clock.wide.dtype) / peaks["fp32"])
    return Passes(again.forward * slower, again.backward * slower)


def _rotation(shard: Shard, sides: tuple[Number, Number, Number], block: int) -> Passes:
    rows, inputs, count = sides
    blocks, clock = inputs / block * count, shard.clock
    found = shard.operations(rows * inputs * count, 10.0, 13.0, 3, 4)
    found += shard.operations(inputs * block * count, *ROTATION_PASSES, 14, 24)
    # Products of thin blocks go at the rate of the numbers that they read and write in fp32.
    moved_B = FP32_PASSES * rows * inputs * count * clock.element_B
    turned, cubes = clock.matmul(rows, block, block, blocks), clock.matmul(block, block, block, blocks)
    least = clock.operands(2.0 * moved_B).matmul_s
    forward = Work(np.maximum(turned.matmul_s, least), flops=turned.flops, kernels=1)
    return found + Passes(forward + cubes * 3, forward * 2 + cubes * 6)
