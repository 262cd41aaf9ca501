"""The model that Megatron-LM's arguments describe: what `export/megatron_shape.py` writes, read back.

    --ffn-hidden-size          4 hidden where it is not given; --swiglu gated
    --kv-channels              hidden / heads
    --add-qkv-bias, --disable-bias-linear, --untie-embeddings-and-output-weights, --normalization, --qk-layernorm
    --num-experts ...          experts in the layers of --moe-layer-freq
    --multi-latent-attention   latent attention

Defaults are those of the parser (`formats/megatron.toml` names the version). A vocabulary that is not given is that of
the tokenizer, where its type or the model that it belongs to says it.
"""

from __future__ import annotations

from typing import Any

from lockstep.base.errors import located
from lockstep.base.types.plain import Json
from lockstep.decide.planner.imports.megatron_pattern import pattern
from lockstep.decide.planner.imports.named import catalogued
from lockstep.decide.planner.imports.said import Said
from lockstep.describe.workload import Model, Transformer, model

NEEDED = ("num-layers", "hidden-size", "num-attention-heads")
POSITIONS = {"rope": "rotary", "yarn": "rotary", "learned_absolute": "learned", "none": "none",
             "rotary": "rotary", "absolute": "learned", "alibi": "alibi"}  # fmt: skip
"""By the settings of Megatron-LM, and those of BigScience's Megatron-DeepSpeed."""
NORMS = {"RMSNorm": "rmsnorm", "LayerNorm": "layernorm", "rmsnorm": "rmsnorm", "layernorm": "layernorm"}
OTHER_LAYERS = (
    "hybrid-layer-pattern", "hybrid-override-pattern", "hybrid-attention-ratio", "is-hybrid-model",
    "experimental-attention-variant", "linear-attention-freq", "heterogeneous-layers-config-path",
    "heterogeneous-layers-config-encoded-json", "moe-latent-size", "attention-output-gate", "decoder-num-layers",
    "moe-expert-parallel-size", "mlp-type", "expert-interval", "enable-shared-expert", "num-shared-experts",
    "qk-nope-head-dim", "n-head-kv", "intermediate-size", "moe-topk",
)  # fmt: skip
"""Settings of models that the arguments read here do not describe."""
VOCABULARIES = {"GPT2BPETokenizer": 50257, "Llama2Tokenizer": 32000, "BertWordPieceLowerCase": 30522,
                "BertWordPieceCase": 28996}  # fmt: skip
"""Tokens of tokenizers that have one vocabulary."""


def megatron_model(said: Said, name: str) -> Model | None:
    """The model; None where the arguments do not hold one. Raises BadInput for a shape that no model has."""
    from lockstep.describe.workload.catalog import build

    other = next((word for word in OTHER_LAYERS if said.values.get(word)), None)
    if said["encoder-num-layers"] not in (None, said["num-layers"]):
        said.contradiction("encoder-num-layers", f"--num-layers is {said['num-layers']}, which counts")
    if any(said[word] is None for word in NEEDED) or other is not None or (vocab := _vocabulary(said)) is None:
        return None
    biased = not said["disable-bias-linear"]
    ffn = said["ffn-hidden-size"] or 4 * said["hidden-size"]
    activation = {"activation": "relu2"} if said["squared-relu"] else {} if said["swiglu"] else {"activation": "gelu"}
    inner: Json = {"gated": bool(said["swiglu"]), **activation}
    fields: Json = {
        "name": name,
        "layers": said["num-layers"],
        "hidden": said["hidden-size"],
        "vocab": vocab,
        "max_positions": said["max-position-embeddings"] or said["seq-length"] or 2048,
        "attention": _attention(said, biased),
        "mlp": {"ffn": ffn, **inner, "in_bias": biased, "out_bias": biased},
        "positions": _positions(said),
        "norm": NORMS[said["normalization"]],
        "norm_epsilon": said["layernorm-epsilon"] or said["norm-epsilon"],
        "tied_embeddings": not said["untie-embeddings-and-output-weights"],
        "mtp_layers": said["mtp-num-layers"] or 0,
    }
    if fields["positions"] == "rotary":
        fields["rotary"] = _rotary(said)
    if said["num-experts"]:
        fields |= _experts(said, ffn, inner)
        if not fields["mlp"]:
            fields.pop("mlp")
    with located(said.text.where("num-layers")):
        return build(fields)


def described(said: Said) -> str:
    """What is known of a model that the arguments do not describe in full; nothing where they have none."""
    if any(said.values.get(word) is None for word in NEEDED):
        return ""
    other = next((word for word in OTHER_LAYERS if said.values.get(word)), None)
    return f"a model of {said['num-layers']} layers " + (f"with --{other}" if other else "without --vocab-size")


def _vocabulary(said: Said) -> int | None:
    """Tokens of the vocabulary."""
    given = said["vocab-size"] or said["padded-vocab-size"] or said["pad-vocab-size-to"]
    if given is not None:
        return int(given)
    if (known := VOCABULARIES.get(said["tokenizer-type"])) is not None:
        return known
    name = catalogued(said["tokenizer-model"] or "")
    found = model(name) if name else None
    return found.vocab if isinstance(found, Transformer) else None


def _positions(said: Said) -> str:
    kind = said["position-embedding-type"]
    if said["use-rotary-position-embeddings"]:
        return "rotary"
    if kind not in POSITIONS:
        said.leave("position-embedding-type", "positions of another kind; rotary ones are taken")
    return POSITIONS.get(kind, "rotary")


def _attention(said: Said, biased: bool) -> Json:
    hidden, heads = said["hidden-size"], said["num-attention-heads"]
    if said["kv-channels"] is None and not said["multi-latent-attention"] and hidden % heads:
        raise said.refuse("hidden-size", f"is {hidden}, which {heads} heads do not divide; --kv-channels is not set")
    groups = said["num-query-groups"] if said["group-query-attention"] else said["num-key-value-heads"]
    if groups and heads % groups:
        raise said.refuse("num-query-groups", f"is {groups}, which does not divide the {heads} heads")
    found: Json = {
        "heads": heads,
        "kv_heads": groups or heads,
        "head_dim": said["kv-channels"] or max(1, hidden // heads),
        "qkv_bias": bool(biased or said["add-qkv-bias"]),
        "out_bias": biased,
        "qk_norm": "head" if said["qk-layernorm"] else "none",
    }
    if said["multi-latent-attention"]:
        found["latent"] = {
            "kv_rank": said["kv-lora-rank"],
            "q_rank": said["q-lora-rank"],
            "nope_dim": said["qk-head-dim"],
            "rope_dim": said["qk-pos-emb-head-dim"],
            "value_dim": said["v-head-dim"],
        }
        found |= {"head_dim": found["latent"]["nope_dim"] + found["latent"]["rope_dim"], "qk_norm": "none"}
    return found | _window(said)


def _window(said: Said) -> Json:
    if said["window-size"] is None:
        return {}
    near = "".join(said["window-size"][:1]).strip("()").split(",")[0].strip()
    if not near.isdecimal() or len(near) > 9:
        raise said.refuse("window-size", f"must be a pair of numbers such as 4095,0, got {near[:40]!r}")
    found: Json = {"window": int(near) + 1}
    skip = said["window-attn-skip-freq"]
    if skip is not None and skip.isdecimal() and len(skip) < 9:
        found["global_every"] = int(skip)
    elif skip is not None:
        said.leave("window-attn-skip-freq", "which layers have a window")
    return found


def _rotary(said: Said) -> Json:
    found: Json = {"base": float(said["rotary-base"]), "share_frac": float(said["rotary-percent"])}
    if said["use-rope-scaling"]:
        found |= {"scaling": "llama3", "factor": float(said["rope-scaling-factor"]), "original_positions": 8192}
    elif said["rope-type"] == "yarn" and said["rotary-scaling-factor"]:
        found |= {"scaling": "yarn", "factor": float(said["rotary-scaling-factor"]), "original_positions": 4096}
        found |= {"mscale": float(said["mscale"]), "mscale_all_dim": float(said["mscale-all-dim"])}
    return found


def _experts(said: Said, ffn: int, inner: Json) -> Json:
    has = pattern(said, "moe-layer-freq", said["num-layers"])
    first = has.index(True) if True in has else len(has)
    top_k, experts = said["moe-router-topk"], said["num-experts"]
    if top_k > experts:
        raise said.refuse("moe-router-topk", f"is {top_k}, more than the {experts} experts")
    sigmoid = said["moe-router-score-function"] == "sigmoid"
    found: Json = {
        "experts": experts,
        "top_k": top_k,
        "ffn": said["moe-ffn-hidden-size"] or ffn,
        **inner,
        "shared_ffn": said["moe-shared-expert-intermediate-size"] or 0,
        "groups": said["moe-router-num-groups"],
        "top_groups": said["moe-router-group-topk"],
        "correction_bias": bool(sigmoid and said["moe-router-enable-expert-bias"]),
        "router_normalized": not said["moe-router-pre-softmax"],
        "router_scale": float(said["moe-router-topk-scaling-factor"] or 1.0),
        "first_dense": first,
        "dense_layers": tuple(place for place, one in enumerate(has) if not one and place >= first),
    }
    if said["moe-shared-expert-gate"]:
        found["shared_gate"] = True
    return {"experts": found} if not all(has) else {"experts": found, "mlp": None}


def layers_of(said: Said, model: str | Model | None) -> int:
    """Layers of the model; 0 where nothing says it."""
    if isinstance(model, Transformer):
        return model.layers
    return int(said["num-layers"] or 0)


def compared(said: Said, model: Model) -> None:
    """Notes where the arguments describe another model than the one that counts."""
    if not isinstance(model, Transformer):
        return
    attention, experts = model.attention, model.experts
    known: dict[str, Any] = {
        "num-layers": model.layers, "encoder-num-layers": model.layers, "hidden-size": model.hidden,
        "num-attention-heads": attention.heads, "ffn-hidden-size": model.mlp.ffn if model.mlp else None,
        "num-query-groups": attention.kv_heads, "mtp-num-layers": model.mtp_layers,
        "num-experts": experts.experts if experts else 0, "moe-router-topk": experts.top_k if experts else None,
        "moe-ffn-hidden-size": experts.ffn if experts else None,
        "moe-shared-expert-intermediate-size": experts.shared_ffn if experts else None,
    }  # fmt: skip
    for word, value in known.items():
        if word in said and value is not None and said[word] != value:
            said.contradiction(word, f"the model has {value}, which counts")
