"""Kernel work of copies and sums that software makes between a layer's other kernels (`Habits.copies`).

Software that keeps sequences before samples, [s, b, h], turns queries, keys and values over to a kernel of attention
that wants them the other way round. In passes that read or write an element, of queries (q) and of keys and values
(kv); what joins the gradients of all three is counted with the projections:

    gpt-neox   queries and keys joined from the part that is rotated and the part that is not (2), each of the three
               copied to samples first (2), packed into one (2), the output copied back (2 of q). Backward the output's
               gradient is copied (2 of q), those of parts of queries and keys are filled into zeros and added (7)
    nanotron   all three permuted (2), keys and values joined (2) and permuted again (2), the output copied (2 of q).
               Backward gradients of keys and values are joined (2), those of all three stacked (2) and copied, the
               output's is copied (2 of q), and the output once more for its product's weights (2 of q)
    dtensor    with sequence parallelism, what ranks gather of every sequence arrives rank by rank and is joined anew
               (2), and what they reduce is taken apart before (2); where products run in pieces only what is reduced
               backward (`parallel/tensor/asynchronous.py`)

With one sequence at a time what turns s and b over moves nothing: `ALONE` falls away. GPT-NeoX also adds the biases of
attention and feed-forward block in kernels of their own (4 of the hidden size).

PyTorch's kernels over tensors that are turned over or cut are not vectorised, and take longer than their bytes
(`TAKES`): measured on H100, and taken as there elsewhere.

Sources: EleutherAI/gpt-neox, megatron/model/transformer.py (ParallelSelfAttention.forward and flash_attention,
ParallelTransformerLayer.forward); huggingface/nanotron, src/nanotron/models/llama.py (CausalSelfAttention.forward),
and _RowLinearAsyncCommunication of its tensor_parallel; PyTorch 2.5 to 2.8, tools/autograd/derivatives.yaml (slice,
cat, split, unbind) and torch/distributed/_functional_collectives.py (all_gather_tensor and reduce_scatter_tensor).
Times: one H100 SXM of 700 W, PyTorch 2.11.0 with CUDA 13.0, 27 November 2026 (h100_kernels.csv, h100_layers.csv).
Tensors turned over alone, at 1.4 to 1.5 TB/s where sums reach 3.0, and 17 layers of nanotron without their collectives.
"""

from __future__ import annotations

import numpy as np

from lockstep.kernels.clock import Clock, Work
from lockstep.kernels.shard import Passes, Shard
from lockstep.layout import LayoutGrid, Recipe
from lockstep.types.arrays import Number

Pair = tuple[tuple[float, float], tuple[float, float]]
TURNED = 2.0
"""Times as long as its bytes that a copy takes which turns a tensor over: 1.95 to 2.15 in five shapes."""
HEADS: dict[str, Pair] = {"gpt-neox": ((8.0, 5.0), (9.0, 3.5)), "nanotron": ((4.0, 6.0), (6.0, 4.0))}
"""Passes over queries, and over keys and values, forward and backward."""
ALONE: dict[str, Pair] = {"gpt-neox": ((4.0, 2.0), (2.0, 0.0)), "nanotron": ((2.0, 0.0), (4.0, 0.0))}
TAKES: dict[str, tuple[float, float]] = {"gpt-neox": (TURNED, TURNED), "nanotron": (1.9, 3.1)}
"""Times as long as their bytes that the copies take, forward and backward. Of nanotron 1.8 to 2.0, and 2.9 to 3.4 with
what joining the three gradients takes beyond its bytes."""
LAUNCHED = {"gpt-neox": (7, 11), "nanotron": (10, 3)}
"""Kernels of either, nanotron's six forward that count tokens included."""
TENSORS = 6
"""Of a layer in nanotron: of queries, keys and values, output, gate and up, down, and two norms."""
BIASES_APART = 4.0
JOINED_PASSES = 2.0


def copied_heads(shard: Shard, width: Number, kv_width: Number) -> Passes:
    """Copies of queries of `width` columns on a rank, and of keys and values of `kv_width` each."""
    kind = shard.recipe.habits.copies
    if kind not in HEADS:
        return Passes(Work(), Work())
    forward, backward = (
        _turned(shard, width, 2 * kv_width, *side)
        for side in zip(HEADS[kind], ALONE[kind], TAKES[kind], LAUNCHED[kind], strict=True)
    )
    return Passes(forward, backward)


def copied_sums(shard: Shard) -> Passes:
    """Biases that are added in kernels of their own."""
    if shard.recipe.habits.copies != "gpt-neox":
        return Passes(Work(), Work())
    return Passes(shard.elementwise(shard.loose_tokens * shard.model.hidden, BIASES_APART, 0.0, 2).forward, Work())


def joined_sequences(shard: Shard, rounds: Number) -> Passes:
    """Sequences of which tensor-parallel ranks gather and reduce parts, `rounds` times either in a pass."""
    recipe, grid = shard.recipe, shard.grid
    if recipe.habits.copies != "dtensor":
        return Passes(Work(), Work())
    rounds = rounds * np.where(grid.sequence_parallel > 0, 1, 0)
    once_B = JOINED_PASSES * rounds * shard.tokens * shard.model.hidden * shard.clock.element_B
    if recipe.overlap_tp == "async":
        return Passes(Work(), shard.clock.stream(once_B, rounds))
    copied = shard.clock.stream((1.0 + recipe.narrow_traffic[0][0]) * once_B, 2 * rounds)
    return Passes(copied, copied)


def _turned(
    shard: Shard, width: Number, others: Number, passes: tuple[float, float], alone: tuple[float, float],
    takes: float, kernels: int,
) -> Work:  # fmt: skip
    """The copies of heads in one pass."""
    single = np.where(shard.grid.micro_batch == 1, 1.0, 0.0)
    queries, keys = (most - less * single for most, less in zip(passes, alone, strict=True))
    size_B = shard.tokens * (queries * width + keys * others) * shard.clock.element_B
    return shard.clock.stream(takes * size_B, kernels)


def returned_s(clock: Clock, grid: LayoutGrid, recipe: Recipe, layers: int) -> Number:
    """Seconds in which ZeRO-1 of nanotron copies what it gathered into `layers` layers of a rank, one launch for
    every tensor and rank (src/nanotron/distributed.py, all_gather_coalesced; optim/zero.py, _all_gather_params). No
    module and no graph is around them: they are taken to launch as fast as autograd's.
    """
    if recipe.habits.copies != "nanotron":
        return 0.0
    return np.where(grid.zero == 1, TENSORS * layers * grid.shard_ranks * clock.launches_s[1], 0.0)
