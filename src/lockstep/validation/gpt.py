"""What the Megatron papers call a GPT model, and the recipe that their runs share."""

from __future__ import annotations

from lockstep.layout import Recipe
from lockstep.workload import Attention, Mlp, Transformer

SEQ = 2048
VOCAB = 51200


def gpt(name: str, layers: int, hidden: int, heads: int, seq: int = SEQ, vocab: int = VOCAB) -> Transformer:
    """A GPT-2-like decoder: learned positions, layer norms and biases everywhere, tied embeddings, 4h feed-forward."""
    head_dim = hidden // heads
    return Transformer(
        name=name,
        layers=layers,
        hidden=hidden,
        vocab=vocab,
        attention=Attention(heads=heads, kv_heads=heads, head_dim=head_dim, qkv_bias=True, out_bias=True),
        mlp=Mlp(ffn=4 * hidden, gated=False, activation="gelu", in_bias=True, out_bias=True),
        positions="learned",
        max_positions=seq,
        norm="layernorm",
        tied_embeddings=True,
    )


def megatron_recipe(batch: int, seq: int = SEQ) -> Recipe:
    """Megatron-LM of 2021: fp16, dropout, fused kernels but unfused attention, nothing overlaps, nothing accumulates
    inside products.

    Gradients are accumulated and reduced in fp32, which the 18 bytes per parameter of arXiv 2205.05198 figure 1 imply.
    """
    return Recipe(
        seq=seq, batch=batch, dtype="fp16", gradient_B=4.0, flash_attention=False, dropout=True, overlap_dp=False,
        fused_accumulation=False, overlap_tp="none",
    )  # fmt: skip
