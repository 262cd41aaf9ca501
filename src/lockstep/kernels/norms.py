"""Kernel work of norms and of rotary embedding: a kernel each, or PyTorch's operations one after another.

In passes that read or write an element in half precision, so that one in fp32 counts two. A norm of a kernel of its own
must take 2 forward and 3 backward. It runs as long as more of them at the memory's rate (`NORMS`), as it reduces rows
and, backward, columns: medians over the rows of cuDNN, PyTorch and torch.compile in memory_bound_kernels.csv. Where software writes
RMSNorm out (`Recipe.fused_norms` false), as the modeling files of transformers do:

    forward    converted to fp32 (3), squared (4), mean (2), scaled by its root (4), converted back (3), weight (2)
    backward   weight (2) and its gradient (4), converted (3), scaled (4), gradient of the scale (8), of the mean (2)
               and of the square (14), added to the other way (6), converted back (3)

Rotary embedding takes 2 and 2 in a kernel of its own; written out, two products (4), the halves turned (1) and joined
(2) and a sum (3), and backward 14, as slices are padded with zeros and added. LayerNorm is one kernel in PyTorch.

Sources: huggingface/transformers, models/llama/modeling_llama.py, LlamaRMSNorm and apply_rotary_pos_emb; PyTorch,
tools/autograd/derivatives.yaml (pow, mean, mul, slice).
"""

from __future__ import annotations

from lockstep.kernels.shard import Passes, Shard
from lockstep.types.arrays import Number
from lockstep.workload import DENSE, LayerKind

NORMS = {"fused": (2.3, 3.8, 1), "torch": (2.9, 8.9, 1), "compiled": (2.6, 7.8, 1)}
"""Passes forward and backward of one norm at the memory's rate, and kernels of either, by who wrote the kernel."""
WRITTEN_NORM = (18.0, 46.0, 10)
ROTARY, WRITTEN_ROTARY = (2.0, 2.0, 2), (10.0, 14.0, 12)


def norms(shard: Shard, kind: LayerKind = DENSE) -> Passes:
    """The norms of a layer, one for each block."""
    return _norms(shard, kind.residual_blocks)


def final_norm_work(shard: Shard) -> Passes:
    """The norm before the head, and that of an encoder."""
    return _norms(shard, 2 if shard.model.encoder_layers else 1)


def norm_passes(shard: Shard) -> tuple[float, float, int]:
    """Passes forward and backward of one norm, and kernels of either."""
    written = not shard.recipe.fused_norms and shard.model.norm == "rmsnorm"
    return WRITTEN_NORM if written else NORMS[shard.clock.stack.norms]


def _norms(shard: Shard, count: int) -> Passes:
    forward, backward, kernels = norm_passes(shard)
    elements = shard.loose_tokens * shard.model.hidden
    return shard.elementwise(elements, count * forward, count * backward, count * kernels)


def rotary_work(shard: Shard, elements: Number) -> Passes:
    """Rotary embedding of so many elements of queries and keys."""
    return shard.elementwise(elements, *(ROTARY if shard.recipe.fused_norms else WRITTEN_ROTARY))
