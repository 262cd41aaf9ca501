"""Families of Hugging Face configs whose layers differ from one another: windows, no positions, recurrent mixers.

Source: the `configuration_*.py` and `modeling_*.py` files of github.com/huggingface/transformers, 5.24.
"""

from __future__ import annotations

from lockstep.base.errors import UnknownName
from lockstep.describe.workload.architecture import Experts, Transformer
from lockstep.describe.workload.config_reader import ConfigReader
from lockstep.describe.workload.huggingface_decoders import LAYERS, attention, both_biases, gated, plain, sizes, window
from lockstep.describe.workload.huggingface_experts import EXPERTS, deepseek_experts, described, top_k

WORDS = {
    "full_attention": "global", "sliding_attention": "local", "chunked_attention": "local", "attention": "global",
    "linear_attention": "recurrent", "mamba": "recurrent", "moe": "none/experts", "mlp": "none/dense",
}  # fmt: skip
"""Words of `layer_types`."""


def pattern(config: ConfigReader, default: tuple[str, ...], **other: str) -> tuple[str, ...]:
    """A word per layer from `layer_types`, in the words of `other` where they differ; `default` where it is absent.

    A model of fewer layers than `default` has, as one that is cut down to try it, has its first.
    """
    name = "layer_types" if config.has("layer_types") else "layers_block_type"
    found, words = config.words(name), WORDS | other
    for value in found:
        if not isinstance(value, str) or value not in words:
            raise UnknownName(f"layer in {name}", str(value)[:40], WORDS, config.where(name))
    layers = config.size(*LAYERS, limit="layers", default=len(found) or None)
    # The class of nemotron_h counts the layers that are listed, whatever their number is said to be.
    if found and len(found) != layers and config.data.get("model_type") != "nemotron_h":
        config.refuse(name, f"it lists {len(found)} layers of {layers}")
    return shortest(tuple(words[value] for value in found)) or cut(default, layers)


def cut(words: tuple[str, ...], layers: int) -> tuple[str, ...]:
    """The shortest pattern of the first `layers` words."""
    return shortest(words[:layers])


def shortest(words: tuple[str, ...]) -> tuple[str, ...]:
    """The shortest pattern whose repetition begins with `words`."""
    for length in range(1, len(words)):
        if all(word == words[at % length] for at, word in enumerate(words)):
            return words[:length]
    return words


def every(number: int, others: str, each: str) -> tuple[str, ...]:
    """A pattern whose every `number`-th layer is `each`."""
    return (*[others] * (number - 1), each)


def gpt_oss(config: ConfigReader) -> Transformer:
    """gpt-oss: sinks, biases everywhere, every second layer global."""
    biases = both_biases(config, default=True)
    local = config.size("sliding_window", limit="positions", default=128)
    experts = Experts(
        experts=config.size(*EXPERTS, limit="experts", default=128),
        top_k=top_k(config, *EXPERTS, chosen=4, there=128),
        ffn=config.size("intermediate_size", limit="ffn"),
        router_bias=True,
        in_bias=True,
        out_bias=True,
    )
    return Transformer(
        **sizes(config, 131072),
        attention=attention(config, head_dim=64, sinks=True, window=local, **biases),
        experts=experts,
        pattern=pattern(config, ("local", "global")),
    )


def llama4(config: ConfigReader) -> Transformer:
    """Llama 4, text part: attention in chunks, every fourth layer global without positions; a shared expert."""
    shape = sizes(config, 131072)
    layers, chunk = shape["layers"], None
    if config.has("attention_chunk_size"):
        chunk = config.size("attention_chunk_size", limit="positions")
    near = "attention" if chunk is None else "local"
    rotated = config.words("no_rope_layers")
    interval = config.size("no_rope_layer_interval", limit="layers", default=4)
    words = tuple(near if value else "nope" for value in rotated[:layers]) or every(interval, near, "nope")
    ffn = config.size("intermediate_size", limit="ffn")
    listed = config.words("moe_layers")
    named = config.has("moe_layers")
    experts = Experts(
        experts=config.size(*EXPERTS, limit="experts"),
        top_k=top_k(config, *EXPERTS),
        ffn=ffn,
        shared_ffn=ffn,
        router_normalized=False,
        every=1 if named else config.size("interleave_moe_layer_step", limit="layers", default=1),
        dense_layers=tuple(layer for layer in range(layers) if named and layer not in listed),
    )
    there, everywhere = described(experts, layers)
    norm = "nonparametric" if config.flag("use_qk_norm", default=True) else "none"
    return Transformer(
        **shape,
        attention=attention(config, head_dim=128, window=chunk, chunked=chunk is not None, qk_norm=norm,
                            **both_biases(config)),
        mlp=None if everywhere else gated(config, ffn=("intermediate_size_mlp",)),
        experts=there,
        pattern=cut(words, layers),
    )  # fmt: skip


def olmo3(config: ConfigReader) -> Transformer:
    """OLMo 3: OLMo 2 with windows in three of four layers."""
    local = config.size("sliding_window", limit="positions", default=4096)
    heads = attention(config, qk_norm="full", window=local, **both_biases(config))
    words = pattern(config, every(4, "local", "global"))
    shape = sizes(config, 2048)
    return Transformer(**shape, attention=heads, mlp=gated(config), norm_placement="output", pattern=words)


def smollm3(config: ConfigReader) -> Transformer:
    """SmolLM3: Llama's block, every fourth layer without positions."""
    shape = sizes(config, 32768, tied=True)
    rotated = config.words("no_rope_layers")
    interval = config.size("no_rope_layer_interval", limit="layers", default=4)
    words = tuple("attention" if value else "nope" for value in rotated) or every(interval, "attention", "nope")
    if config.flag("use_sliding_window"):
        config.refuse("use_sliding_window", "windows of layers without positions are not described")
    return Transformer(
        **shape,
        attention=attention(config, **both_biases(config)),
        mlp=gated(config),
        pattern=cut(words, shape["layers"]),
    )


def cohere2(config: ConfigReader) -> Transformer:
    """Command R7B and Command A: windows with positions, every fourth layer global without."""
    local = config.size("sliding_window", limit="positions", default=4096)
    interval = config.size("sliding_window_pattern", "_sliding_window_pattern", limit="layers", default=4)
    return Transformer(
        **sizes(config, 8192, tied=True),
        attention=attention(config, window=local, **both_biases(config)),
        mlp=gated(config),
        norm="layernorm-no-bias",
        parallel_block=True,
        pattern=pattern(config, every(interval, "local", "nope"), full_attention="nope"),
    )


def exaone4(config: ConfigReader) -> Transformer:
    """EXAONE 4: norms on block outputs, queries and keys; with windows, global layers have no positions."""
    local = window(config)
    far = "global" if local is None else "nope"
    words = pattern(config, every(4, "local", far) if local else (), full_attention=far)
    if local is None and "local" in words:
        config.refuse("layer_types", "layers of sliding attention need sliding_window")
    heads = attention(config, qk_norm="head", window=local)
    shape = sizes(config, 2048)
    return Transformer(**shape, attention=heads, mlp=gated(config), norm_placement="output", pattern=words)


def glm4(config: ConfigReader) -> Transformer:
    """GLM-4 of 2025: norms before and after each block, biases on queries, keys and values."""
    heads = attention(config, head_dim=128, qkv_bias=config.flag("attention_bias", default=True))
    return Transformer(**sizes(config, 131072), attention=heads, mlp=gated(config), norm_placement="sandwich")


def seed_oss(config: ConfigReader) -> Transformer:
    """Seed-OSS: Llama's block, biases of its own on the output projection."""
    heads = attention(
        config,
        head_dim=128,
        qkv_bias=config.flag("attention_bias", default=True),
        out_bias=config.flag("attention_out_bias"),
    )
    return Transformer(**sizes(config, 524288), attention=heads, mlp=gated(config))


def granite_moe(config: ConfigReader) -> Transformer:
    """Granite 3 with experts in every layer."""
    experts = Experts(
        experts=config.size(*EXPERTS, limit="experts", default=8),
        top_k=top_k(config, *EXPERTS),
        ffn=config.size("intermediate_size", limit="ffn"),
        activation=config.activation("hidden_act", default="silu"),
        shared_ffn=config.size("shared_intermediate_size", limit="ffn", default=0, minimum=0),
    )
    return Transformer(**sizes(config, 2048), attention=attention(config, **both_biases(config)), experts=experts)


def glm4_moe(config: ConfigReader) -> Transformer:
    """GLM-4.5 to 4.7 and dots.llm1: shared and routed experts as in DeepSeek-V3, ordinary attention."""
    shape = sizes(config, 131072)
    dots = config.data.get("model_type") == "dots1"
    normed = dots or config.flag("use_qk_norm")
    biased, heads = config.flag("attention_bias"), config.size("num_attention_heads", limit="heads")
    experts = deepseek_experts(config, shape["layers"], True, first_dense=0 if dots else 1)
    there, everywhere = described(experts, shape["layers"])
    return Transformer(
        **shape,
        attention=attention(
            config,
            head_dim=max(1, shape["hidden"] // heads),
            qkv_bias=biased,
            out_bias=dots and biased,
            qk_norm="head" if normed else "none",
        ),
        mlp=None if everywhere else gated(config),
        experts=there,
    )


def olmoe(config: ConfigReader) -> Transformer:
    """OLMoE: 64 small experts, norms over the full width of queries and keys."""
    experts = Experts(
        experts=config.size(*EXPERTS, limit="experts"),
        top_k=top_k(config, *EXPERTS),
        ffn=config.size("intermediate_size", limit="ffn"),
        activation=config.activation("hidden_act", default="silu"),
        router_normalized=config.flag("norm_topk_prob"),
    )
    heads = attention(config, qk_norm="full", **both_biases(config))
    shape = sizes(config, 4096)
    if heads.query_width != shape["hidden"]:
        config.refuse("head_dim", f"the class norms all heads together over hidden_size={shape['hidden']}")
    return Transformer(**shape, attention=heads, experts=experts)


def minimax_m2(config: ConfigReader) -> Transformer:
    """MiniMax-M2: many experts, norms over the full width of queries and keys."""
    experts = Experts(
        experts=config.size(*EXPERTS, limit="experts"),
        top_k=top_k(config, *EXPERTS),
        ffn=config.size("intermediate_size", limit="ffn"),
        activation=config.activation("hidden_act", default="silu"),
        correction_bias=True,
    )
    heads = attention(config, head_dim=128, qk_norm="full")
    return Transformer(**sizes(config, 196608), attention=heads, experts=experts)


def phimoe(config: ConfigReader) -> Transformer:
    """Phi-3.5-MoE: sixteen experts, norms with biases, a bias on the head."""
    experts = Experts(
        experts=config.size(*EXPERTS, limit="experts", default=16),
        top_k=top_k(config, *EXPERTS),
        ffn=config.size("intermediate_size", limit="ffn"),
        activation=config.activation("hidden_act", default="silu"),
        router_normalized=False,
    )
    heads = attention(config, window=window(config), **both_biases(config))
    head_bias = config.flag("lm_head_bias")
    shape = sizes(config, 131072)
    return Transformer(**shape, attention=heads, experts=experts, norm="layernorm", head_bias=head_bias)


def ernie4_5(config: ConfigReader) -> Transformer:
    """ERNIE 4.5, dense: Llama's block, with biases where use_bias says so."""
    biased = config.flag("use_bias")
    heads = attention(config, head_dim=128, qkv_bias=biased, out_bias=biased)
    block = gated(config)
    if biased:
        config.refuse("use_bias", "biases of its gated block are not described")
    return Transformer(**sizes(config, 131072, tied=True), attention=heads, mlp=block)


def hunyuan(config: ConfigReader) -> Transformer:
    """Hunyuan, dense: norms on queries and keys."""
    heads = attention(config, qk_norm="head", **both_biases(config))
    return Transformer(**sizes(config, 2048), attention=heads, mlp=gated(config))


def arcee(config: ConfigReader) -> Transformer:
    """AFM-4.5B: Llama with squared ReLU and no gate."""
    block = plain(config, config.flag("mlp_bias"), activation="relu2")
    return Transformer(**sizes(config, 4096), attention=attention(config, **both_biases(config)), mlp=block)
