"""Kernel work that a quantised base adds where its matrices read fp32, and so give it (bitsandbytes under autocast).

PEFT prepares such a base by bringing norms to fp32 (`Habits.prepared_base`; trl casts embeddings and head back, as the
memory of fms_adapters' baseline before training says to the byte), and torch.autocast runs LayerNorm in fp32. What a
norm gives is then fp32; a four- or eight-bit matrix converts it for its product, and what comes out to the format that
it read. The residual stream, queries, keys, values and all inside a feed-forward block are so in fp32. In passes over
elements of half precision, beside what is counted without it:

    norms      RMSNorm written out needs no conversions: 4 less forward and 4 less backward, one of whose gradients is
               wide; a kernel of its own moves twice the bytes
    products   inputs converted (3), what comes out too (3); backward both ways (3 and 3), and gradients of what several
               read are added in fp32 (3 more)
    attention  rotary embedding and repeated heads once more, as wide; converted for the kernel (3), and backward (3)
    block      the activation once more, as wide
    residuals  added to half precision (2 more) and in fp32 (3 more); backward both sums are fp32 (6 more), and what
               returns to attention's output is narrowed (3)
    adapters   outputs copied and added as wide (4), inputs narrowed for A (3); backward both (3 and 3), the sum in fp32
               (3), and a dropout in fp32 (2 more either way)

Attention's output is in half precision, and so is what its projection gives.

Sources: huggingface/peft 0.13, peft/utils/other.py (prepare_model_for_kbit_training) and tuners/lora/bnb.py;
huggingface/trl 0.11, trainer/sft_trainer.py (which prepares what is not sharded) and utils.py
(peft_module_casting_to_bf16); bitsandbytes 0.43, nn/modules.py (Linear4bit.forward: `out.to(inp_dtype)`); PyTorch,
aten/src/ATen/autocast_mode.cpp (fp32: layer_norm); huggingface/transformers 4.45, modeling_flash_attention_utils.py
(fp32 is cast back for the kernel).
"""

from __future__ import annotations

import numpy as np

from lockstep.kernels.clock import WIDENED, Work
from lockstep.kernels.norms import norm_passes, writes_norms
from lockstep.kernels.shard import Passes, Shard
from lockstep.kernels.slots import slot_work
from lockstep.layout.sharing import repeats_heads, wide_base
from lockstep.types.arrays import Number
from lockstep.workload import Adapters, LayerKind, Mlp, layer_weights

CAST = SUM = 3.0
READERS = ("query", "key", "value", "gate", "up", "down")
"""Matrices that read what is fp32."""


def wide_work(shard: Shard, kind: LayerKind) -> Passes:
    """What it adds to a layer of attention and a dense block."""
    model, adapters = shard.model, shard.recipe.adapters
    wide = wide_base(shard.recipe, shard.grid, model.norm)
    if adapters is None or model.mlp is None or kind.block != "dense" or not kind.attends or not np.any(wide):
        return Passes(Work(), Work())
    found = _stream(shard, model.mlp) + _attention(shard) + _block(shard, model.mlp) + _adapters(shard, adapters, kind)
    return found.when(wide)


def _stream(shard: Shard, mlp: Mlp) -> Passes:
    """Norms, residuals, and what the products read."""
    elements = shard.loose_tokens * shard.model.hidden
    readers = (3 if shard.recipe.habits.own_projections and mlp.gated else 1) + (2 if mlp.gated else 1)
    norm = (-4.0, -4.0) if writes_norms(shard) else norm_passes(shard)
    found = _to_half(shard, readers * elements, readers) + shard.operations(elements, 0.0, SUM * (readers - 2), 0, 0)
    found += shard.operations(elements, 2.0 * norm[0] + 5.0, 2.0 * norm[1] + 9.0, 0, 1)
    # What the block gives is converted too.
    return found + _to_fp32(shard, elements, 1)


def _to_half(shard: Shard, elements: Number, kernels: int) -> Passes:
    """Copies to half precision, and of their gradients to fp32."""
    return shard.operations(elements, CAST, CAST * shard.clock.instruction_bound(WIDENED), kernels, kernels)


def _to_fp32(shard: Shard, elements: Number, kernels: int) -> Passes:
    """Copies to fp32, and of their gradients to half precision."""
    return shard.operations(elements, CAST * shard.clock.instruction_bound(WIDENED), CAST, kernels, kernels)


def _attention(shard: Shard) -> Passes:
    """Queries, keys and values between their products and the kernel."""
    attention, tokens = shard.model.attention, shard.tokens
    queries = tokens * attention.heads / shard.grid.tp * attention.head_dim
    keys = tokens * shard.kv_heads * attention.head_dim
    repeats = repeats_heads(shard.recipe) and attention.kv_heads < attention.heads
    read = 3 * queries if repeats else queries + 2 * keys
    found = _to_fp32(shard, queries + 2 * keys, 3) + _to_half(shard, read, 3)
    if repeats:
        found += shard.operations(2 * (queries + keys), 1.0, 1.0, 0, 0)
    if shard.model.positions == "rotary":
        found += slot_work(shard, "rotary", queries + keys)
    return found


def _block(shard: Shard, mlp: Mlp) -> Passes:
    """What the up products give, the activation, and what the down product reads."""
    width = mlp.ffn / shard.grid.tp
    given = 2 if mlp.gated else 1
    casts = _to_fp32(shard, given * shard.tokens * width, given) + _to_half(shard, shard.tokens * width, 1)
    return casts + slot_work(shard, "gate" if mlp.gated else "activation", shard.tokens * width)


def _adapters(shard: Shard, adapters: Adapters, kind: LayerKind) -> Passes:
    """Adapters that read what is fp32."""
    found, tp = Passes(Work(), Work()), shard.grid.tp
    dropout = 2.0 if adapters.dropout_frac else 0.0
    for weight in layer_weights(shard.model, kind.stored):
        if weight.name in READERS and adapters.adapts(weight):
            inputs, outputs = weight.shape
            sides: tuple[Number, Number] = (inputs, outputs / tp) if weight.name != "down" else (inputs / tp, outputs)
            found += shard.operations(shard.tokens * sides[1], 4.0, SUM, 0, 1)
            if not adapters.joins(weight):
                found += shard.operations(shard.tokens * sides[0], dropout, SUM + dropout, 0, 1)
                found += _to_half(shard, shard.tokens * sides[0], 1)
    return found
