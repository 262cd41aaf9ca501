"""Kernel work of casts around products where numbers between them are fp32, and of adapters that read these.

    torch.autocast     products cast what they read of the residual stream, each for itself; attention casts queries
                       and keys, which fp32 cosines and sines have made fp32
    a quantised base   of bitsandbytes under autocast converts what it reads for its product, and what comes out to the
                       format that it read. PEFT prepares such a base by bringing norms to fp32, and autocast runs
                       LayerNorm in fp32, so that all but attention and its output is fp32; attention's kernel reads
                       and gives half precision. Adapters copy and add outputs as wide (4), narrow inputs for A (3);
                       backward both (3 and 3), the sum in fp32 (3), and a dropout in fp32 (2 more either way)

The casts are slots (`input` and `output` of `describe/stacks/ways.toml`).

Sources: PyTorch, aten/src/ATen/autocast_mode.h (cached_cast) and autocast_mode.cpp (fp32: layer_norm); huggingface/peft
0.13, peft/utils/other.py (prepare_model_for_kbit_training) and tuners/lora/bnb.py; huggingface/trl 0.11,
trainer/sft_trainer.py (which prepares what is not sharded) and utils.py (peft_module_casting_to_bf16, whose embeddings
and head are cast back, as the memory of fms_adapters' baseline before training says to the byte); bitsandbytes 0.43,
nn/modules.py (Linear4bit.forward: `out.to(inp_dtype)`); huggingface/transformers 4.45,
modeling_flash_attention_utils.py (fp32 is cast back for the kernel).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.describe.workload import Adapters, LayerKind, layer_operations, layer_weights
from lockstep.price.kernels.operations import NOTHING
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.slots import casts, gives_fp32, inner_work, stream_work
from lockstep.price.layout.sharing import one_product, repeats_heads

SUM = 3.0
READERS = ("query", "key", "value", "gate", "up", "down")
"""Matrices that read what is fp32."""


def input_casts(shard: Shard, kind: LayerKind) -> Passes:
    """Casts under torch.autocast of what products read of the residual stream, and attention of queries and keys that
    were turned.
    """
    mask, model = casts(shard), shard.model
    if not np.any(mask):
        return NOTHING
    found = stream_work(shard, "input", shard.loose_tokens * model.hidden, sum(readers(shard, kind)))
    if any(one.does == "rotary" for one in layer_operations(model, kind)):
        queries, keys = _heads(shard)
        # Keys that are repeated are so in fp32, and cast after it.
        found += stream_work(shard, "input", (queries + (queries if _repeats(shard) else keys)) / 2, 2)
        found += shard.operations(queries + keys, 1.0, 1.0, 0, 0) if _repeats(shard) else NOTHING
    return found.when(mask)


def readers(shard: Shard, kind: LayerKind) -> tuple[int, ...]:
    """Products that read the residual stream in each block of a layer; of routed experts the router alone."""
    recipe, model, mlp, moe = shard.recipe, shard.model, shard.model.mlp, shard.model.experts
    found = [] if kind.mixer == "none" else [1 if one_product(recipe, model, "qkv") else 3]
    found += [1] * kind.crosses
    if kind.experts and moe is not None:
        found.append(1 + (1 + moe.gated) * bool(moe.shared_ffn))
    elif kind.block == "dense" and mlp is not None:
        found.append(2 if mlp.gated and not one_product(recipe, model, "gate_up") else 1)
    return tuple(found)


def wide_work(shard: Shard, kind: LayerKind) -> Passes:
    """Casts around the products of a quantised base that gives fp32, of a layer of attention and a dense block."""
    model, adapters, mask = shard.model, shard.adapters, gives_fp32(shard)
    if adapters is None or model.mlp is None or kind.block != "dense" or not kind.attends or not np.any(mask):
        return NOTHING
    stream, given = shard.loose_tokens * model.hidden, 2 if model.mlp.gated else 1
    width = shard.tokens * model.mlp.ffn / shard.grid.tp
    joint = not shard.recipe.habits.own_projections or not model.mlp.gated
    found = stream_work(shard, "input", stream, (1 if joint else 3) + given) + stream_work(shard, "output", stream)
    found += inner_work(shard, "output", width, given) + inner_work(shard, "input", width)
    return (found + _attention(shard) + _adapters(shard, adapters, kind)).when(mask)


def _attention(shard: Shard) -> Passes:
    """Queries, keys and values between their products and the kernel."""
    queries, keys = _heads(shard)
    repeats = _repeats(shard)
    read = 3 * queries if repeats else queries + 2 * keys
    # Three kernels either way.
    found = inner_work(shard, "output", (queries + 2 * keys) / 3, 3) + inner_work(shard, "input", read / 3, 3)
    return found + shard.operations(2 * (queries + keys), 1.0, 1.0, 0, 0) if repeats else found


def _heads(shard: Shard) -> tuple[Number, Number]:
    """Numbers of queries, and of keys or values, on the rank."""
    attention, tokens = shard.model.attention, shard.tokens
    queries = tokens * attention.heads / shard.grid.tp * attention.head_dim
    return queries, tokens * shard.kv_heads * attention.head_dim


def _repeats(shard: Shard) -> bool:
    attention = shard.model.attention
    return repeats_heads(shard.recipe) and attention.kv_heads < attention.heads


def _adapters(shard: Shard, adapters: Adapters, kind: LayerKind) -> Passes:
    """Adapters that read what is fp32."""
    found, tp = NOTHING, shard.grid.tp
    dropout = 2.0 if adapters.dropout_frac else 0.0
    for weight in layer_weights(shard.model, kind.stored):
        if weight.name in READERS and adapters.adapts(weight):
            inputs, outputs = weight.shape
            sides: tuple[Number, Number] = (inputs, outputs / tp) if weight.name != "down" else (inputs / tp, outputs)
            found += shard.operations(shard.tokens * sides[1], 4.0, SUM, 0, 1)
            if not adapters.joins(weight):
                found += shard.operations(shard.tokens * sides[0], dropout, SUM + dropout, 0, 1)
                found += inner_work(shard, "input", shard.tokens * sides[0])
    return found
