"""Kernel work of the ends of a model of images, on every tensor-parallel rank: its patches, and what is read off.

Symbols: b images per micro-batch, n^2 patches of an image, v numbers in a patch, h hidden. The projection is the
product (b n^2, h, v), whose images need no gradient.
"""

from __future__ import annotations

from collections.abc import Iterable

from lockstep.base.types.arrays import Number
from lockstep.describe.workload import Modulation, Patches, Weight
from lockstep.price.kernels.clock import Work
from lockstep.price.kernels.shard import Passes, Shard

LOSS = {True: (5.0, 4.0), False: (9.0, 11.0)}
"""Passes over what the loss reads, with kernels fused or not, as for a vocabulary (`layer.py`)."""


def patch_work(shard: Shard, patches: Patches) -> Passes:
    """The projection of patches; then the class token is put before them and positions are added, a kernel each."""
    clock, model = shard.clock, shard.model
    rows, elements = images(shard) * patches.count, shard.tokens * model.hidden
    forward = clock.matmul(rows, model.hidden, patches.values)
    weight = Work() if shard.recipe.adapters is not None else clock.matmul(model.hidden, patches.values, rows)
    found = Passes(forward, weight) + shard.elementwise(elements, 2.0, 1.0 if model.positions == "learned" else 0.0)
    if patches.class_token:
        found += shard.elementwise(elements, 2.0, 2.0)
    if model.modulation is not None and not model.modulation.own:
        found += _once(shard, model.modulation.embedders(model.hidden))
    return found


def image_head_work(shard: Shard, patches: Patches) -> Passes:
    """Classifier of one vector per image, or projection onto pixels, and its loss."""
    rows: Number = images(shard)
    outputs = patches.classes
    if patches.outputs:
        rows, outputs = rows * patches.count, patches.predicted
    if not outputs:
        return Passes(Work(), Work())
    passes, found = LOSS[shard.recipe.fused_elementwise], Passes(Work(), Work())
    if shard.model.modulation is not None:
        found += _once(shard, shard.model.modulation.head_weights(shard.model.hidden)) + _scaled(shard)
    return (
        found + shard.product(rows, outputs, shard.model.hidden) + shard.elementwise(rows * outputs, *passes, kernels=5)
    )


def modulation_work(shard: Shard, modulation: Modulation) -> Passes:
    """Vectors of a layer, and what they do to its two blocks: norms are scaled and shifted, outputs weighed."""
    scaled, weighed = _scaled(shard), _weighed(shard)
    return _once(shard, modulation.layer_weights(shard.model.hidden)) + scaled + scaled + weighed + weighed


def _scaled(shard: Shard) -> Passes:
    """Scale and shift of a norm's output. In a kernel with the norm they move nothing more. Of their own, a read and a
    write each; backward a read for the shift, a read and a write for the stream, and for the scale a product of two
    that is written and added up.
    """
    if shard.recipe.fused_elementwise:
        return Passes(Work(), Work())
    frozen = shard.recipe.adapters is not None
    return _over_stream(shard, (4.0, 2), (2.0, 1) if frozen else (7.0, 4))


def _weighed(shard: Shard) -> Passes:
    """A gate on a block's output, in a kernel with the residual addition or of its own; backward its gradient, and the
    output's, which addition alone passes on.
    """
    frozen = shard.recipe.adapters is not None
    if shard.recipe.fused_elementwise:
        return _over_stream(shard, (0.0, 0), (2.0, 1) if frozen else (3.0, 1))
    return _over_stream(shard, (2.0, 1), (2.0, 1) if frozen else (6.0, 3))


def _over_stream(shard: Shard, forward: tuple[float, int], backward: tuple[float, int]) -> Passes:
    """(passes, kernels) over the residual stream in either direction."""
    size_B = shard.loose_tokens * shard.model.hidden * shard.clock.element_B
    return Passes(*(shard.clock.elementwise(passes * size_B, kernels) for passes, kernels in (forward, backward)))


def _once(shard: Shard, weights: Iterable[Weight]) -> Passes:
    """Products that are made once per image."""
    found = Passes(Work(), Work())
    for one in weights:
        if one.per_sequence:
            found += shard.product(images(shard), one.shape[1], one.shape[0])
    return found


def images(shard: Shard) -> Number:
    """Images of a micro-batch: products made once per image have so many rows."""
    return shard.grid.micro_batch
