"""Kernel work of the ends of a model of images, on every tensor-parallel rank: its patches, and what is read off.

Symbols: b images per micro-batch, n^2 patches of an image, v numbers in a patch, h hidden. The projection is the
product (b n^2, h, v), whose images need no gradient.
"""

from __future__ import annotations

from lockstep.kernels.clock import Work
from lockstep.kernels.shard import Passes, Shard
from lockstep.types.arrays import Number
from lockstep.workload import Patches

LOSS = {True: (5.0, 4.0), False: (9.0, 11.0)}
"""Passes over what the loss reads, with kernels fused or not, as for a vocabulary (`layer.py`)."""


def patch_work(shard: Shard, patches: Patches) -> Passes:
    """The projection of patches; then the class token is put before them and positions are added, a kernel each."""
    clock, model = shard.clock, shard.model
    rows, elements = images(shard) * patches.count, shard.tokens * model.hidden
    forward = clock.matmul(rows, model.hidden, patches.values)
    weight = Work() if shard.recipe.adapters is not None else clock.matmul(model.hidden, patches.values, rows)
    found = Passes(forward, weight) + shard.elementwise(elements, 2.0, 1.0 if model.positions == "learned" else 0.0)
    return found + shard.elementwise(elements, 2.0, 2.0) if patches.class_token else found


def image_head_work(shard: Shard, patches: Patches) -> Passes:
    """Classifier of one vector per image, or projection onto pixels, and its loss."""
    rows: Number = images(shard)
    outputs = patches.classes
    if patches.outputs:
        rows, outputs = rows * patches.count, patches.predicted
    if not outputs:
        return Passes(Work(), Work())
    passes = LOSS[shard.recipe.fused_elementwise]
    return shard.product(rows, outputs, shard.model.hidden) + shard.elementwise(rows * outputs, *passes, kernels=5)


def images(shard: Shard) -> Number:
    """Images of a micro-batch: products made once per image have so many rows."""
    return shard.grid.micro_batch
