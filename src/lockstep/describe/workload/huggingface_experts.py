"""Families of Hugging Face configs with experts, and DeepSeek's latent attention."""

from __future__ import annotations

from typing import Any

from lockstep.base.errors import BadInput
from lockstep.describe.workload.architecture import Attention, Experts, LatentAttention, Transformer
from lockstep.describe.workload.checks import LIMITS
from lockstep.describe.workload.config_reader import ConfigReader
from lockstep.describe.workload.huggingface_decoders import HEADS, attention, both_biases, gated, sizes, window

EXPERTS = ("num_experts", "num_local_experts")
ROUTED = ("n_routed_experts", *EXPERTS)


def described(experts: Experts, layers: int) -> tuple[Experts | None, bool]:
    """(`experts`, or None where no layer has them, as in a model cut down to its first; whether every layer has)."""
    sparse = [experts.in_layer(layer) for layer in range(layers)]
    return experts if any(sparse) else None, all(sparse)


def mixtral(config: ConfigReader) -> Transformer:
    """Mixtral: experts in every layer."""
    experts = Experts(
        experts=config.size(*EXPERTS, limit="experts"),
        top_k=top_k(config, *EXPERTS),
        ffn=config.size("intermediate_size", limit="ffn"),
        activation=config.activation("hidden_act", default="silu"),
    )
    return Transformer(**sizes(config, 131072), attention=attention(config, window=window(config)), experts=experts)


def qwen2_moe(config: ConfigReader) -> Transformer:
    """Qwen1.5-MoE and Qwen2-MoE: a shared expert behind a gate."""
    shared = config.size("shared_expert_intermediate_size", limit="ffn")
    heads = attention(config, qkv_bias=config.flag("qkv_bias", default=True))
    return qwen_moe(config, heads, shared)


def qwen3_moe(config: ConfigReader) -> Transformer:
    """Qwen3-MoE: no shared expert, norms on queries and keys."""
    return qwen_moe(config, attention(config, qk_norm="head", **both_biases(config)), 0)


def qwen_moe(
    config: ConfigReader, heads: Attention, shared: int, normalized: bool = False, **habits: Any
) -> Transformer:
    """Experts in every decoder_sparse_step-th layer but those of mlp_only_layers."""
    shape = sizes(config, 32768)
    experts = Experts(
        experts=config.size(*EXPERTS, limit="experts"),
        top_k=top_k(config, *EXPERTS),
        ffn=config.size("moe_intermediate_size", limit="ffn"),
        activation=config.activation("hidden_act", default="silu"),
        router_normalized=config.flag("norm_topk_prob", default=normalized),
        shared_ffn=shared,
        shared_gate=shared > 0,
        every=config.size("decoder_sparse_step", limit="layers", default=1),
        dense_layers=_layer_numbers(config, "mlp_only_layers"),
    )
    there, everywhere = described(experts, shape["layers"])
    return Transformer(**shape, attention=heads, mlp=None if everywhere else gated(config), experts=there, **habits)


def dbrx(config: ConfigReader) -> Transformer:
    """DBRX: sixteen experts, norms without biases."""
    inner, blocks = config.table("attn_config"), config.table("ffn_config")
    shape = sizes(config, 2048)
    if blocks.size("hidden_size", limit="hidden", default=shape["hidden"]) != shape["hidden"]:
        blocks.refuse("hidden_size", f"experts must be as wide as d_model={shape['hidden']}")
    kv_heads = inner.size("kv_n_heads", limit="kv_heads", default=config.size(*HEADS, limit="heads"))
    experts = Experts(
        experts=blocks.size("moe_num_experts", limit="experts"),
        top_k=top_k(blocks, "moe_num_experts"),
        ffn=blocks.size("ffn_hidden_size", limit="ffn"),
        activation=blocks.table("ffn_act_fn").activation("name", default="silu"),
    )
    heads = attention(config, kv_heads=kv_heads)
    return Transformer(**shape, attention=heads, experts=experts, norm="layernorm-no-bias")


def deepseek(config: ConfigReader) -> Transformer:
    """DeepSeek-V2 and V3: latent attention, shared experts of moe_intermediate_size each, first layers dense."""
    shape = sizes(config, 4096)
    third = config.data.get("model_type") in ("deepseek_v3", "kimi_k2")
    mtp = config.size("num_nextn_predict_layers", limit="layers", default=0, minimum=0)
    if mtp > 100:
        raise BadInput(f"num_nextn_predict_layers={mtp} is too many", config.where("num_nextn_predict_layers"))
    first = 3 if config.data.get("model_type") == "deepseek_v3" else 0
    experts, everywhere = None, False
    if not config.is_null("n_routed_experts"):
        given = deepseek_experts(config, shape["layers"], third, first_dense=first)
        experts, everywhere = described(given, shape["layers"])
    return Transformer(
        **shape,
        attention=latent(config),
        mlp=None if everywhere else gated(config),
        experts=experts,
        mtp_layers=mtp,
    )


def latent(config: ConfigReader, query_rank: int = 1536) -> Attention:
    """Heads behind low-rank projections; a null q_lora_rank projects queries directly."""
    direct = config.is_null("q_lora_rank")
    ranks = LatentAttention(
        q_rank=None if direct else config.size("q_lora_rank", limit="hidden", default=query_rank),
        kv_rank=config.size("kv_lora_rank", limit="hidden"),
        nope_dim=config.size("qk_nope_head_dim", limit="head_dim"),
        rope_dim=config.size("qk_rope_head_dim", limit="head_dim"),
        value_dim=config.size("v_head_dim", limit="head_dim"),
    )
    heads = config.size("num_attention_heads", limit="heads")
    width = ranks.nope_dim + ranks.rope_dim
    biased = config.flag("attention_bias")
    return Attention(heads=heads, kv_heads=heads, head_dim=width, latent=ranks, qkv_bias=biased, out_bias=biased)


def deepseek_experts(config: ConfigReader, layers: int, correction_bias: bool, first_dense: int = 0) -> Experts:
    """Routed and shared experts; beyond the first dense layers, those whose number is a multiple of moe_layer_freq."""
    kind = str(config.data.get("model_type"))
    first = config.size("first_k_dense_replace", limit="layers", default=first_dense, minimum=0)
    every = config.size("moe_layer_freq", limit="layers", default=1)
    ffn = config.size("moe_intermediate_size", limit="ffn")
    own = {"deepseek_v2": 2, "deepseek_v3": 1, "glm4_moe": 1, "solar_open": 1}.get(kind, 0)
    own = 0 if config.is_null("n_shared_experts") else own
    shared = config.size("n_shared_experts", limit="experts", default=own, minimum=0) * ffn
    if shared > LIMITS["ffn"]:
        raise BadInput(f"n_shared_experts times {ffn} is too wide", config.where("n_shared_experts"))
    groups = config.size("n_group", limit="experts", default=1) if config.has("n_group") else 1
    number = config.size(*ROUTED, limit="experts")
    config.must_divide("n_group", groups, number, "experts")
    chosen = config.size("topk_group", limit="experts", default=groups) if groups > 1 else 1
    if chosen > groups:
        config.refuse("topk_group", f"a token's experts are among {groups} groups")
    return Experts(
        experts=number,
        groups=groups,
        top_groups=chosen,
        top_k=top_k(config, *ROUTED),
        ffn=ffn,
        activation=config.activation("hidden_act", default="silu"),
        shared_ffn=shared,
        shared_bias=kind == "deepseek_v2" and config.flag("mlp_bias"),
        correction_bias=correction_bias,
        router_normalized=config.flag("norm_topk_prob", default=correction_bias),
        router_scale=config.number("routed_scaling_factor", default=2.5 if correction_bias else 1.0) or 1.0,
        first_dense=first,
        dense_layers=tuple(layer for layer in range(first, layers) if layer % every),
    )


def top_k(config: ConfigReader, *experts: str, chosen: int | None = None, there: int | None = None) -> int:
    """Experts per token, at most as many as there are; `chosen` and `there` are the family's own numbers."""
    names = ("num_experts_per_tok", "moe_top_k", "experts_per_token")
    chosen = config.size(*names, limit="top_k", default=chosen)
    there = config.size(*experts, limit="experts", default=there)
    if chosen > there:
        where = config.where(*names)
        raise BadInput(f"a token cannot visit {chosen} of {there} experts", where)
    return chosen


def _layer_numbers(config: ConfigReader, name: str) -> tuple[int, ...]:
    """A list of layer numbers."""
    found = config.words(name)
    for value in found:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LIMITS["layers"]:
            raise BadInput(f"{name} must list layer numbers from 0, got {str(value)[:40]!r}", config.where(name))
    return tuple(found)
