"""Families of Hugging Face configs with fewer models, most of them Llama's block with habits of their own.

Source: the `configuration_*.py` and `modeling_*.py` files of github.com/huggingface/transformers, 5.24.
"""

from __future__ import annotations

from lockstep.base.errors import UnknownName
from lockstep.describe.workload.architecture import Experts, Transformer
from lockstep.describe.workload.config_reader import ConfigReader
from lockstep.describe.workload.huggingface_decoders import attention, both_biases, four_hidden, gated, plain, sizes
from lockstep.describe.workload.huggingface_experts import EXPERTS, deepseek_experts, described, latent, top_k
from lockstep.describe.workload.huggingface_layers import pattern


def glm(config: ConfigReader) -> Transformer:
    """GLM-4 of 2024: Llama's block with biases on queries, keys and values."""
    heads = attention(config, head_dim=128, qkv_bias=config.flag("attention_bias", default=True))
    return Transformer(**sizes(config, 131072), attention=heads, mlp=gated(config))


def helium(config: ConfigReader) -> Transformer:
    """Helium: Llama's block; a bias of attention is on queries, keys and values alone."""
    shape, heads = sizes(config, 4096), attention(config, head_dim=128, qkv_bias=config.flag("attention_bias"))
    if heads.query_width != shape["hidden"]:
        config.refuse("head_dim", f"the class has heads that are hidden_size={shape['hidden']} wide together")
    return Transformer(**shape, attention=heads, mlp=gated(config))


def stablelm(config: ConfigReader) -> Transformer:
    """StableLM: LayerNorm, perhaps a parallel block, perhaps norms of each query and key head."""
    per_head = "per-head" if config.flag("qk_layernorm") else "none"
    return Transformer(
        **sizes(config, 4096),
        attention=attention(config, qkv_bias=config.flag("use_qkv_bias"), qk_norm=per_head),
        mlp=gated(config),
        norm="layernorm",
        parallel_block=config.flag("use_parallel_residual"),
    )


def cwm(config: ConfigReader) -> Transformer:
    """Code World Model: Llama's block, with windows in three of four layers."""
    local = config.size("sliding_window", limit="positions", default=8192)
    words = pattern(config, ("global", "local", "local", "local"))
    heads = attention(config, head_dim=128, window=local)
    return Transformer(**sizes(config, 131072), attention=heads, mlp=gated(config), pattern=words)


def jais2(config: ConfigReader) -> Transformer:
    """Jais 2: LayerNorm, squared ReLU without a gate, biases."""
    return Transformer(
        **sizes(config, 8192),
        attention=attention(config, **both_biases(config, True)),
        mlp=plain(config, config.flag("mlp_bias", default=True), activation="relu2"),
        norm="layernorm",
    )


def nanochat(config: ConfigReader) -> Transformer:
    """nanochat: squared ReLU without a gate; no norm has parameters."""
    return Transformer(
        **sizes(config, 2048),
        attention=attention(config, qk_norm="nonparametric", **both_biases(config)),
        mlp=plain(config, False, activation="relu2"),
        norm="nonparametric",
    )


def vaultgemma(config: ConfigReader) -> Transformer:
    """VaultGemma: Gemma 2 without the norms after each block."""
    local = config.size("sliding_window", limit="positions", default=4096)
    heads = attention(config, head_dim=256, window=local, **both_biases(config))
    words = pattern(config, ("local", "global"))
    return Transformer(**sizes(config, 8192, tied=True), attention=heads, mlp=gated(config, "gelu"), pattern=words)


def gpt_neo(config: ConfigReader) -> Transformer:
    """GPT-Neo: GPT-2 with windows in every second layer, and a bias on the output of attention alone."""
    layers = config.size("num_layers", "num_hidden_layers", limit="layers", default=24)
    kinds = config.words("attention_types")
    words = (
        tuple(word for part, times in kinds for _ in range(times) for word in part) if kinds else ("global", "local")
    )
    unknown = [word for word in words if word not in ("global", "local")]
    if unknown:
        raise UnknownName("attention", str(unknown[0])[:40], ("global", "local"), config.where("attention_types"))
    heads = config.size("num_heads", "num_attention_heads", limit="heads", default=16)
    local = config.size("window_size", limit="positions", default=256)
    return Transformer(
        **sizes(config, 2048, tied=True, layers=layers),
        attention=attention(config, default_heads=heads, out_bias=True, window=local),
        mlp=plain(config, True, four_hidden(config), "gelu_new"),
        norm="layernorm",
        positions="learned",
        pattern=words[:layers],
    )


def biogpt(config: ConfigReader) -> Transformer:
    """BioGPT: GPT-2's block with two spare positions."""
    return Transformer(
        **sizes(config, 1024, tied=True),
        attention=attention(config, qkv_bias=True, out_bias=True),
        mlp=plain(config, True),
        norm="layernorm",
        positions="learned",
        extra_positions=2,
    )


def youtu(config: ConfigReader) -> Transformer:
    """Youtu-LLM and MiniCPM 3: DeepSeek's latent attention without experts."""
    longest, rank = (32768, 768) if config.data.get("model_type") == "minicpm3" else (131072, 1536)
    return Transformer(**sizes(config, longest, tied=True), attention=latent(config, rank), mlp=gated(config))


def flex_olmo(config: ConfigReader) -> Transformer:
    """FlexOlmo: OLMo 2 with experts as wide as its block."""
    experts = Experts(
        experts=config.size(*EXPERTS, limit="experts", default=7),
        top_k=top_k(config, *EXPERTS, chosen=5, there=7),
        ffn=config.size("intermediate_size", limit="ffn"),
        activation=config.activation("hidden_act", default="silu"),
        router_normalized=config.flag("norm_topk_prob"),
    )
    heads = attention(config, qk_norm="full", **both_biases(config))
    return Transformer(**sizes(config, 4096), attention=heads, experts=experts, norm_placement="output")


def ernie4_5_moe(config: ConfigReader) -> Transformer:
    """ERNIE 4.5 with experts: shared ones beside them, first layers dense, a learned correction of the router."""
    shape = sizes(config, 131072, tied=True)
    if config.flag("use_bias"):
        config.refuse("use_bias", "biases of its gated blocks are not described")
    layers, ffn = shape["layers"], config.size("moe_intermediate_size", limit="ffn", default=1536)
    first = config.size("moe_layer_start_index", limit="layers", default=1, minimum=0)
    last = layers - 1
    if config.data.get("moe_layer_end_index", -1) != -1:
        last = config.size("moe_layer_end_index", limit="layers", minimum=0)
    interval = config.size("moe_layer_interval", limit="layers", default=1)
    number = config.size("moe_num_experts", "num_experts", limit="experts", default=64)
    chosen = config.size("moe_k", "num_experts_per_tok", limit="top_k", default=6)
    if chosen > number:
        config.refuse("moe_k", f"a token cannot visit so many of {number} experts")
    experts = Experts(
        experts=number,
        top_k=chosen,
        ffn=ffn,
        activation=config.activation("hidden_act", default="silu"),
        shared_ffn=config.size("moe_num_shared_experts", limit="experts", default=2, minimum=0) * ffn,
        correction_bias=True,
        dense_layers=tuple(layer for layer in range(layers) if not first <= layer <= last or (layer + 1) % interval),
    )
    there, everywhere = described(experts, layers)
    mlp = None if everywhere else gated(config)
    return Transformer(**shape, attention=attention(config), mlp=mlp, experts=there)


def solar_open(config: ConfigReader) -> Transformer:
    """Solar Open: experts in every layer, shared and routed as in DeepSeek-V3, ordinary attention."""
    shape = sizes(config, 131072)
    there, _ = described(deepseek_experts(config, shape["layers"], True), shape["layers"])
    heads = attention(config, head_dim=128, qkv_bias=config.flag("attention_bias"))
    return Transformer(**shape, attention=heads, experts=there)
