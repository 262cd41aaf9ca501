"""Draws settings of fine-tuning steps by a seed, one JSON line each: python tools/real_steps/draw.py 200 --seed 1

A setting has the configuration of a small model, the trainer, and what a run may set. Widths are such that weights,
states, activations and logits each matter somewhere. `bf16` is autocast; `load` the format of the weights.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from typing import Any

Config = dict[str, Any]
TRAINERS = ("Trainer", "SFT", "DPO", "KTO", "Reward", "GRPO", "RLOO")
OPTIMIZERS = ("adamw_torch", "adamw_torch_fused", "adafactor", "sgd")
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
EXPERTS = ("mixtral", "qwen3_moe", "deepseek_v3", "gpt_oss")


def _base(rng: random.Random, kind: str, **more: Any) -> Config:
    """What the configuration of any decoder has; heads of 32 or 64, up to four queries on each key."""
    head_dim, kv_heads = rng.choice((32, 64)), rng.choice((1, 2))
    heads = kv_heads * rng.choice((1, 2, 4))
    hidden = rng.choice((128, 192, 256, 384, 512))
    return {
        "model_type": kind, "vocab_size": rng.choice((1000, 4000, 16000, 50000)), "hidden_size": hidden,
        "intermediate_size": 64 * rng.randint(3, 20), "num_hidden_layers": rng.randint(2, 5),
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim,
        "max_position_embeddings": 1024, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
        "pad_token_id": 0,
    } | more  # fmt: skip


def _experts(rng: random.Random) -> Config:
    return {"num_experts_per_tok": 2, "moe_intermediate_size": 32 * rng.randint(2, 6)}


def config(rng: random.Random, kind: str) -> Config:
    """The configuration of a small model of a type."""
    made = _base(rng, kind)
    if kind == "phi3":
        made["hidden_size"] = made["num_attention_heads"] * made.pop("head_dim")
    elif kind == "qwen3":
        made |= {"tie_word_embeddings": True}
    elif kind == "gemma3_text":
        made |= {"tie_word_embeddings": True, "sliding_window": 4096, "query_pre_attn_scalar": 32}
    elif kind == "deepseek_v3":
        made.pop("head_dim")
        heads, rope, nope = made["num_attention_heads"], rng.choice((16, 32)), rng.choice((16, 32))
        made |= _experts(rng) | {
            "num_key_value_heads": heads, "n_routed_experts": 8, "n_shared_experts": 1, "n_group": 1,
            "topk_group": 1, "first_k_dense_replace": 1, "q_lora_rank": 64, "kv_lora_rank": 32, "v_head_dim": 32,
            "qk_rope_head_dim": rope, "qk_nope_head_dim": nope,
        }  # fmt: skip
    elif kind == "mixtral":
        made |= {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}
    elif kind == "qwen3_moe":
        made |= _experts(rng) | {"num_experts": 8, "decoder_sparse_step": 1}
    elif kind == "gpt_oss":
        made |= {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4096}
    elif kind == "bamba":
        made |= {"mamba_n_heads": made["hidden_size"] // 16, "mamba_d_head": 32, "mamba_d_state": 32, "mamba_expand": 2,
                 "mamba_n_groups": 1, "mamba_chunk_size": 64, "attn_layer_indices": [1]}  # fmt: skip
    elif kind in ("gpt2", "gpt_neox"):
        heads = made["hidden_size"] // 32
        words = ("model_type", "vocab_size", "bos_token_id", "eos_token_id", "pad_token_id")
        made = {name: made[name] for name in words} | (
            {"n_embd": made["hidden_size"], "n_layer": made["num_hidden_layers"], "n_head": heads, "n_positions": 1024,
             "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0} if kind == "gpt2" else
            {name: made[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers",
                                           "max_position_embeddings")} | {"num_attention_heads": heads}
        )  # fmt: skip
    return made


KINDS = ("llama", "qwen3", "gemma3_text", "phi3", "deepseek_v3", "mixtral", "qwen3_moe", "bamba", "gpt_oss", "gpt2",
         "gpt_neox", "olmo2")  # fmt: skip


def adapters(rng: random.Random, kind: str) -> dict[str, Any]:
    """What is trained beside frozen weights. PEFT refuses dropout beside experts, and `out_proj` of Mamba's mixers."""
    named = kind == "bamba" or (kind in ("llama", "qwen3", "olmo2", "mixtral") and rng.random() < 0.4)
    dropout = rng.choice((0.0, 0.0, 0.1)) if kind not in EXPERTS else 0.0
    return {"r": rng.choice((4, 8, 16)), "targets": ATTENTION if named else "all-linear", "dropout": dropout}


def setting(rng: random.Random, number: int) -> dict[str, Any]:
    """One setting; architectures and trainers take turns."""
    kind, trainer = KINDS[number % len(KINDS)], rng.choice(TRAINERS)
    lora, load = adapters(rng, kind), rng.choice(("fp32", "fp32", "bf16"))
    return {
        "number": number, "config": config(rng, kind), "trainer": trainer, "lora": rng.choice((None, lora)),
        "micro": rng.randint(1, 3) * (2 if trainer in ("KTO", "GRPO", "RLOO") else 1), "seq": 64 * rng.randint(1, 8),
        "accumulation": rng.choice((1, 1, 2)), "checkpointing": rng.choice((False, True)), "load": load,
        "bf16": rng.choice((True, False)), "optimizer": rng.choice(OPTIMIZERS),
        "beta": rng.choice((0.0, 0.04)) if trainer in ("GRPO", "RLOO") else None,
    }  # fmt: skip


def settings(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """So many settings; the same seed gives the same."""
    rng = random.Random(seed)
    for number in range(count):
        yield setting(rng, number)


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("count", type=int)
    words.add_argument("--seed", type=int, default=1)
    given = words.parse_args()
    for one in settings(given.count, given.seed):
        print(json.dumps(one))
