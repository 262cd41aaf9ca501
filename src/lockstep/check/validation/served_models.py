"""Models of published serving runs: those of the catalog, and those that it does not have.

Sources of the latter: ModelCloud/GPTQModel, gptqmodel/hf_minimax_m2 (defaults of MiniMaxM2Config, 228.7B parameters);
config.json of Qwen/Qwen3-Coder-480B-A35B-Instruct and google/gemma-3-12b-it as quoted in public repositories; Megatron
Bridge's recipes of Nemotron Nano v2 (9B: 56 layers, 12B: 62; M is Mamba-2, * attention, - feed-forward).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from lockstep.describe.workload import Transformer, model
from lockstep.describe.workload.architecture import Attention, Experts, Mlp
from lockstep.describe.workload.recurrent import Mamba2

NAMES = {
    "openai/gpt-oss-120b": "gpt-oss-120b",
    "openai/gpt-oss-20b": "gpt-oss-20b",
    "Llama-3.1-8B": "llama3.1-8b",
    "Llama-3.1-70B": "llama3.1-70b",
    "Llama-3.3-70B": "llama3.3-70b",
    "Llama-3.1-405B": "llama3-405b",
    "Llama-4-Scout": "llama4-scout",
    "Llama-4-Maverick": "llama4-maverick",
    "DeepSeek": "deepseek-v3",
    "Qwen3-235B": "qwen3-235b-a22b",
    "Qwen3-30B": "qwen3-30b-a3b",
    "Qwen3-Coder-30B": "qwen3-30b-a3b",
    "Qwen3-32B": "qwen3-32b",
    "Qwen3-14B": "qwen3-14b",
    "Qwen3-8B": "qwen3-8b",
    "gemma-3-27b": "gemma3-27b",
}
"""A part of a published name, and the catalog's."""
POSITIONS = 131072
"""Longest sequence, which nothing here depends on."""
WORDS = {"M": "recurrent/none", "*": "nope/none", "-": "none/dense"}
NANO_9B = "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-"
NANO_12B = "M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M-"


@cache
def served_model(published: str) -> Transformer:
    """The model of a published name. Raises KeyError where it is not known."""
    own = {"MiniMax-M2": _minimax, "Coder-480B": _coder, "gemma-3-12b": _gemma, "Nemotron-Nano": _nano}
    make = next((make for part, make in own.items() if part in published), None)
    if make is not None:
        return make(published)
    found = model(next(name for part, name in NAMES.items() if part in published))
    if not isinstance(found, Transformer):
        raise KeyError(published)
    return replace(found, mtp_layers=0)


def _minimax(name: str) -> Transformer:
    attention = Attention(heads=48, kv_heads=8, head_dim=128, qk_norm="full")
    experts = Experts(experts=256, top_k=8, ffn=1536, correction_bias=True)
    return Transformer(
        name=name, layers=62, hidden=3072, vocab=200064, max_positions=POSITIONS, attention=attention, experts=experts
    )


def _coder(name: str) -> Transformer:
    attention = Attention(heads=96, kv_heads=8, head_dim=128, qk_norm="head")
    experts = Experts(experts=160, top_k=8, ffn=2560)
    return Transformer(
        name=name, layers=62, hidden=6144, vocab=151936, max_positions=POSITIONS, attention=attention, experts=experts
    )


def _gemma(name: str) -> Transformer:
    attention = Attention(heads=16, kv_heads=8, head_dim=256, qk_norm="head", window=1024, global_every=6)
    return Transformer(
        name=name,
        layers=48,
        hidden=3840,
        vocab=262208,
        attention=attention,
        mlp=Mlp(ffn=15360, activation="gelu"),
        max_positions=POSITIONS,
        norm_placement="sandwich",
        tied_embeddings=True,
    )


def _nano(name: str) -> Transformer:
    pattern, hidden, ffn = (NANO_9B, 4480, 15680) if "9B" in name else (NANO_12B, 5120, 20480)
    return Transformer(
        name=name,
        layers=len(pattern),
        hidden=hidden,
        vocab=131072,
        pattern=tuple(WORDS[one] for one in pattern),
        attention=Attention(heads=40, kv_heads=8, head_dim=128),
        positions="none",
        max_positions=POSITIONS,
        mlp=Mlp(ffn=ffn, gated=False, activation="relu2"),
        recurrent=Mamba2(heads=128, head_dim=80, state=128, groups=8),
    )
