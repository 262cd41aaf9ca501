"""The model that Megatron-LM's arguments describe: what `export/megatron_shape.py` writes, read back.

    --ffn-hidden-size          4 hidden where it is not given; --swiglu gated
    --kv-channels              hidden / heads
    --add-qkv-bias, --disable-bias-linear, --untie-embeddings-and-output-weights, --normalization, --qk-layernorm
    --num-experts ...          experts in the layers of --moe-layer-freq
    --multi-latent-attention   latent attention

Defaults are those of the parser (see `export/arguments/megatron.toml` for names and version).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from lockstep.planner.imports.imported import integer
from lockstep.types.plain import Json
from lockstep.workload import Model

MOST_LAYERS = 10_000
NEEDED = ("num-layers", "hidden-size", "num-attention-heads")
POSITIONS = {"rope": "rotary", "learned_absolute": "learned", "none": "none"}
NORMS = {"RMSNorm": "rmsnorm", "LayerNorm": "layernorm"}


def megatron_model(flags: Mapping[str, Any], name: str) -> Model | None:
    """The model; None where the arguments do not hold one, its vocabulary among them."""
    from lockstep.workload.catalog import build

    if any(one not in flags for one in NEEDED) or "vocab-size" not in flags:
        return None
    hidden, heads = integer(flags, "hidden-size"), integer(flags, "num-attention-heads")
    biased = "disable-bias-linear" not in flags
    ffn = integer(flags, "ffn-hidden-size", 4 * hidden)
    activation = (
        {"activation": "relu2"} if "squared-relu" in flags else {} if "swiglu" in flags else {"activation": "gelu"}
    )
    inner: Json = {"gated": "swiglu" in flags, **activation}
    fields: Json = {
        "name": name,
        "layers": integer(flags, "num-layers"),
        "hidden": hidden,
        "vocab": integer(flags, "vocab-size"),
        "max_positions": integer(flags, "max-position-embeddings", integer(flags, "seq-length", 2048)),
        "attention": _attention(flags, hidden, heads, biased),
        "mlp": {"ffn": ffn, **inner, "in_bias": biased, "out_bias": biased},
        "positions": POSITIONS.get(str(flags.get("position-embedding-type", "learned_absolute")), "rotary"),
        "norm": NORMS.get(str(flags.get("normalization", "LayerNorm")), "layernorm"),
        "norm_epsilon": float(flags.get("norm-epsilon", 1e-5)),
        "tied_embeddings": "untie-embeddings-and-output-weights" not in flags,
        "mtp_layers": integer(flags, "mtp-num-layers", 0),
    }
    if fields["positions"] == "rotary":
        fields["rotary"] = _rotary(flags)
    if "num-experts" in flags:
        fields |= _experts(flags, fields["layers"], ffn, inner)
        if not fields["mlp"]:
            fields.pop("mlp")
    return build(fields)


def _attention(flags: Mapping[str, Any], hidden: int, heads: int, biased: bool) -> Json:
    found: Json = {
        "heads": heads,
        "kv_heads": integer(flags, "num-query-groups", heads) if "group-query-attention" in flags else heads,
        "head_dim": integer(flags, "kv-channels", hidden // heads),
        "qkv_bias": biased or "add-qkv-bias" in flags,
        "out_bias": biased,
        "qk_norm": "head" if "qk-layernorm" in flags else "none",
    }
    if "multi-latent-attention" in flags:
        found["latent"] = {
            "kv_rank": integer(flags, "kv-lora-rank", 512),
            "q_rank": integer(flags, "q-lora-rank") if "q-lora-rank" in flags else None,
            "nope_dim": integer(flags, "qk-head-dim", 128),
            "rope_dim": integer(flags, "qk-pos-emb-head-dim", 64),
            "value_dim": integer(flags, "v-head-dim", 128),
        }
        found |= {"head_dim": found["latent"]["nope_dim"] + found["latent"]["rope_dim"], "qk_norm": "none"}
    if "window-size" in flags:
        near = str(flags["window-size"] if isinstance(flags["window-size"], str) else flags["window-size"][0])
        found["window"] = int(near.strip("()").split(",")[0]) + 1
        found["global_every"] = integer(flags, "window-attn-skip-freq", 0)
    return found


def _rotary(flags: Mapping[str, Any]) -> Json:
    found: Json = {
        "base": float(flags.get("rotary-base", 10000)),
        "share_frac": float(flags.get("rotary-percent", 1.0)),
    }
    if "use-rope-scaling" in flags:
        found |= {"scaling": "llama3", "factor": float(flags.get("rope-scaling-factor", 8.0))}
        found["original_positions"] = 8192
    elif flags.get("rope-type") == "yarn" and "rotary-scaling-factor" in flags:
        found |= {"scaling": "yarn", "factor": float(flags["rotary-scaling-factor"]), "original_positions": 4096}
        found |= {"mscale": float(flags.get("mscale", 1.0)), "mscale_all_dim": float(flags.get("mscale-all-dim", 0.0))}
    return found


def _experts(flags: Mapping[str, Any], layers: int, ffn: int, inner: Json) -> Json:
    pattern = _pattern(flags.get("moe-layer-freq", "1"), layers)
    first = pattern.index(True) if True in pattern else len(pattern)
    sigmoid = flags.get("moe-router-score-function") == "sigmoid"
    experts: Json = {
        "experts": integer(flags, "num-experts"),
        "top_k": integer(flags, "moe-router-topk", 2),
        "ffn": integer(flags, "moe-ffn-hidden-size", ffn),
        **inner,
        "shared_ffn": integer(flags, "moe-shared-expert-intermediate-size", 0),
        "groups": integer(flags, "moe-router-num-groups"),
        "top_groups": integer(flags, "moe-router-group-topk"),
        "correction_bias": sigmoid and "moe-router-enable-expert-bias" in flags,
        "router_normalized": "moe-router-pre-softmax" not in flags,
        "router_scale": float(flags.get("moe-router-topk-scaling-factor", 1.0)),
        "first_dense": first,
        "dense_layers": tuple(place for place, has in enumerate(pattern) if not has and place >= first),
    }
    return {"experts": experts} if not all(pattern) else {"experts": experts, "mlp": None}


def _pattern(said: object, layers: int) -> list[bool]:
    """Which layers have experts: every Nth, or a list such as ([0]*3+[1]*58)."""
    text = str(said).strip("\"'")
    if text.isdigit():
        return [place % int(text) == 0 for place in range(layers)]
    return [bool(one) for one in _sequence(ast.parse(text, mode="eval").body)]


def _sequence(node: ast.expr) -> list[int]:
    """A list of whole numbers, made of lists, + and *."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _sequence(node.left) + _sequence(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _sequence(node.left) * min(int(ast.literal_eval(node.right)), MOST_LAYERS)
    return [int(one) for one in ast.literal_eval(node)]
