"""Kernel work of copies that software makes between a layer's other kernels.

    heads        software that keeps sequences before samples, [s, b, h], turns queries, keys and values over to a
                 kernel of attention that wants them the other way round (`heads` of `describe/stacks/ways.toml`). With
                 one sequence at a time what turns s and b over moves nothing
    sequences    with sequence parallelism of torch's DTensor, what ranks gather of every sequence arrives rank by rank
                 and is joined anew (2 passes), and what they reduce is taken apart before (2); where products run in
                 pieces only what is reduced backward (`simulate/parallel/tensor/asynchronous.py`)

Source: PyTorch 2.5 to 2.8, torch/distributed/_functional_collectives.py (all_gather_tensor, reduce_scatter_tensor).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.price.kernels.clock import Clock, Work
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.slots import Parts, slot_work
from lockstep.price.layout import LayoutGrid, Recipe

TENSORS = 6
"""Of a layer: of queries, keys and values, output, gate and up, down, and two norms."""
JOINED_PASSES = 2.0


def copied_heads(shard: Shard, width: Number, kv_width: Number) -> Passes:
    """Copies of queries of `width` columns on a rank, and of keys and values of `kv_width` each."""
    queries, keys, several = shard.tokens * width, 2 * shard.tokens * kv_width, shard.grid.micro_batch > 1
    parts: Parts = {"keys": (keys, 1), "queries_together": (queries, several), "keys_together": (keys, several)}
    return slot_work(shard, "heads", queries, parts=parts)


def joined_sequences(shard: Shard, rounds: Number) -> Passes:
    """Sequences of which tensor-parallel ranks gather and reduce parts, `rounds` times either in a pass."""
    recipe, grid = shard.recipe, shard.grid
    if not recipe.habits.distributed_tensors:
        return Passes(Work(), Work())
    rounds = rounds * np.where(grid.sequence_parallel > 0, 1, 0)
    once_B = JOINED_PASSES * rounds * shard.tokens * shard.model.hidden * shard.clock.element_B
    if recipe.overlap_tp == "async":
        return Passes(Work(), shard.clock.stream(once_B, rounds))
    copied = shard.clock.stream((1.0 + recipe.narrow_traffic[0][0]) * once_B, 2 * rounds)
    return Passes(copied, copied)


def returned_s(clock: Clock, grid: LayoutGrid, recipe: Recipe, layers: int) -> Number:
    """Seconds in which ZeRO-1 copies what it gathered into `layers` layers of a rank, one launch for every tensor and
    rank (`Habits.copied_gathers`). No module and no graph is around them: they are taken to launch as fast as
    autograd's.
    """
    if not recipe.habits.copied_gathers:
        return 0.0
    return np.where(grid.zero == 1, TENSORS * layers * grid.shard_ranks * clock.launches_s[1], 0.0)
