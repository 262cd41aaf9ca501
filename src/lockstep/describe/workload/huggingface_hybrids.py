"""Hybrid families of Hugging Face configs: recurrent mixers with some attention.

Source: the `configuration_*.py` and `modeling_*.py` files of github.com/huggingface/transformers, 5.24.
"""

from __future__ import annotations

import math

from lockstep.base.errors import UnknownName
from lockstep.base.types.plain import Json
from lockstep.describe.workload.architecture import Attention, Experts, Transformer
from lockstep.describe.workload.config_reader import ConfigReader
from lockstep.describe.workload.huggingface_decoders import attention, both_biases, gated, key_value_heads, plain, sizes
from lockstep.describe.workload.huggingface_experts import EXPERTS, ROUTED, described, qwen_moe, top_k
from lockstep.describe.workload.huggingface_layers import every, pattern, shortest
from lockstep.describe.workload.recurrent import DeltaNet, Mamba, Mamba2

LETTERS = {"M": "recurrent/none", "E": "none/experts", "*": "global/none", "-": "none/dense"}
"""Letters of Nemotron-H's `hybrid_override_pattern`."""


def _delta(config: ConfigReader) -> DeltaNet:
    """The recurrent layers of Qwen3-Next and Qwen3.5."""
    heads = config.size("linear_num_value_heads", limit="heads", default=32)
    key_heads = config.size("linear_num_key_heads", limit="heads", default=16)
    config.must_divide("linear_num_key_heads", key_heads, heads, "linear_num_value_heads")
    return DeltaNet(
        heads=heads,
        key_heads=key_heads,
        key_dim=config.size("linear_key_head_dim", limit="head_dim", default=128),
        value_dim=config.size("linear_value_head_dim", limit="head_dim", default=128),
        conv=config.size("linear_conv_kernel_dim", limit="head_dim", default=4),
    )


DENSE = ("qwen3_5", "qwen3_5_text")
"""Model types without experts."""


def qwen3_next(config: ConfigReader) -> Transformer:
    """Qwen3-Next and Qwen3.5: three gated delta nets to one layer of gated attention; dense, or experts."""
    interval = config.size("full_attention_interval", limit="layers", default=4)
    words = pattern(config, every(interval, "recurrent", "global"))
    heads = attention(config, head_dim=256, qk_norm="head", gated=True, **both_biases(config))
    habits: Json = {"pattern": words, "recurrent": _delta(config) if "recurrent" in words else None}
    if config.data.get("model_type") in DENSE:
        return Transformer(**sizes(config, 32768), attention=heads, mlp=gated(config), **habits)
    shared = config.size("shared_expert_intermediate_size", limit="ffn", default=512)
    return qwen_moe(config, heads, shared, normalized=True, **habits)


def _mamba2(config: ConfigReader, hidden: int) -> Mamba2:
    """The recurrent layers of Bamba and Granite 4."""
    heads = config.size("mamba_n_heads", limit="heads", default=128)
    inner = config.size("mamba_expand", limit="heads", default=2) * hidden
    given = config.data.get("mamba_d_head", "auto")
    groups = config.size("mamba_n_groups", limit="heads", default=1)
    config.must_divide("mamba_n_groups", groups, heads, "mamba_n_heads")
    return Mamba2(
        heads=heads,
        head_dim=inner // heads if given == "auto" else config.size("mamba_d_head", limit="head_dim"),
        state=config.size("mamba_d_state", limit="head_dim", default=256),
        groups=groups,
        conv=config.size("mamba_d_conv", limit="head_dim", default=4),
        chunk=config.size("mamba_chunk_size", limit="positions", default=256),
        bias=config.flag("mamba_proj_bias"),
        conv_bias=config.flag("mamba_conv_bias", default=True),
    )


def granite_hybrid(config: ConfigReader) -> Transformer:
    """Granite 4: Mamba-2 with some attention, or attention alone; experts with a shared one, or a dense block."""
    shape = sizes(config, 2048)
    words = pattern(config, ("recurrent",))
    shared = config.size("shared_intermediate_size", limit="ffn", default=1024)
    number = config.size("num_local_experts", limit="experts", default=8, minimum=0)
    activation = config.activation("hidden_act", default="silu")
    experts = None
    if number:
        experts = Experts(
            experts=number,
            top_k=top_k(config, "num_local_experts"),
            ffn=config.size("intermediate_size", limit="ffn"),
            activation=activation,
            shared_ffn=shared,
        )
    return Transformer(
        **shape,
        attention=attention(config, **both_biases(config)),
        mlp=None if experts else gated(config, ffn=("shared_intermediate_size",)),
        experts=experts,
        recurrent=_mamba2(config, shape["hidden"]) if "recurrent" in words else None,
        pattern=() if set(words) == {"global"} else words,
        positions="rotary" if config.data.get("position_embedding_type") == "rope" else "none",
    )


def bamba(config: ConfigReader) -> Transformer:
    """Bamba: Mamba-2 with attention in the layers of attn_layer_indices."""
    shape = sizes(config, 262144)
    listed = config.words("attn_layer_indices")
    words = tuple("global" if layer in listed else "recurrent" for layer in range(shape["layers"]))
    return Transformer(
        **shape,
        attention=attention(config, **both_biases(config)),
        mlp=gated(config),
        recurrent=_mamba2(config, shape["hidden"]) if "recurrent" in words else None,
        pattern=shortest(words),
    )


def jamba(config: ConfigReader) -> Transformer:
    """Jamba: Mamba with attention in one layer of eight, experts in every second; no positions."""
    shape = sizes(config, 262144)
    layers, hidden = shape["layers"], shape["hidden"]
    step = config.size("attn_layer_period", limit="layers", default=8)
    first = config.size("attn_layer_offset", limit="layers", default=4, minimum=0)
    words = tuple("global" if layer % step == first else "recurrent" for layer in range(layers))
    number = config.size(*EXPERTS, limit="experts", default=16)
    routed = config.size("expert_layer_period", limit="layers", default=2)
    begin = config.size("expert_layer_offset", limit="layers", default=1, minimum=0)
    given = config.data.get("mamba_dt_rank", "auto")
    experts = None
    if number > 1:
        experts = Experts(
            experts=number,
            top_k=top_k(config, *EXPERTS),
            ffn=config.size("intermediate_size", limit="ffn"),
            activation=config.activation("hidden_act", default="silu"),
            router_normalized=False,
            dense_layers=tuple(layer for layer in range(layers) if layer % routed != begin),
        )
        experts, _ = described(experts, layers)
    return Transformer(
        **shape,
        attention=attention(config),
        mlp=gated(config),
        experts=experts,
        recurrent=Mamba(
            inner=config.size("mamba_expand", limit="heads", default=2) * hidden,
            state=config.size("mamba_d_state", limit="head_dim", default=16),
            rank=math.ceil(hidden / 16) if given == "auto" else config.size("mamba_dt_rank", limit="hidden"),
            conv=config.size("mamba_d_conv", limit="head_dim", default=4),
            bias=config.flag("mamba_proj_bias"),
            conv_bias=config.flag("mamba_conv_bias", default=True),
            inner_norms=True,
        )
        if "recurrent" in words
        else None,
        pattern=shortest(words),
        positions="none",
    )


def nemotron_h(config: ConfigReader) -> Transformer:
    """Nemotron-H and Nemotron 3: layers of one block each, Mamba-2, attention, squared ReLU or experts."""
    letters = config.data.get("hybrid_override_pattern")
    words = pattern(config, (), full_attention="global/none", linear_attention="recurrent/none", mamba="recurrent/none",
                    attention="global/none")  # fmt: skip
    if not words and isinstance(letters, str):
        for letter in letters:
            if letter not in LETTERS:
                raise UnknownName(
                    "layer in hybrid_override_pattern", letter, LETTERS, config.where("hybrid_override_pattern")
                )
        words = tuple(LETTERS[letter] for letter in letters)
    if config.has("moe_latent_size"):
        config.refuse("moe_latent_size", "experts behind a narrower projection are not described")
    listed = config.words("layers_block_type") or config.words("layer_types")
    layers = len(listed) or len(letters if isinstance(letters, str) else "")
    shape = sizes(config, 4096, layers=layers) if layers else sizes(config, 4096)
    shape["layers"] = layers or shape["layers"]
    tied = shape.pop("tied_embeddings")
    groups = config.size("n_groups", "mamba_n_groups", limit="heads", default=8)
    recurs = any(word.startswith("recurrent") for word in words)
    if recurs:
        config.must_divide("n_groups", groups, config.size("mamba_num_heads", limit="heads"), "mamba_num_heads")
    blocks = {word.partition("/")[2] for word in words}
    heads = Attention(
        heads=config.size("num_attention_heads", limit="heads"),
        kv_heads=key_value_heads(config, config.size("num_attention_heads", limit="heads")),
        head_dim=config.size("head_dim", "attention_head_dim", limit="head_dim", default=128),
    )
    bias = config.flag("use_bias")
    return Transformer(
        **shape,
        attention=heads,
        mlp=plain(config, config.flag("mlp_bias"), activation=config.activation("mlp_hidden_act", default="relu2"))
        if "dense" in blocks
        else None,
        experts=_nemotron_experts(config) if "experts" in blocks else None,
        recurrent=Mamba2(
            heads=config.size("mamba_num_heads", limit="heads"),
            head_dim=config.size("mamba_head_dim", limit="head_dim"),
            state=config.size("ssm_state_size", limit="head_dim"),
            groups=groups,
            conv=config.size("conv_kernel", "mamba_d_conv", limit="head_dim", default=4),
            chunk=config.size("chunk_size", "mamba_chunk_size", limit="positions", default=128),
            bias=bias,
            conv_bias=config.flag("use_conv_bias", "mamba_conv_bias", default=True),
        )
        if recurs
        else None,
        pattern=shortest(words),
        positions="none",
        notes=("tie_word_embeddings is ignored: the class of transformers has two tables",) if tied else (),
    )


def _nemotron_experts(config: ConfigReader) -> Experts:
    """Experts with squared ReLU, without gates, and a shared one, as wide as dense blocks where its width is 0."""
    shared = config.size("moe_shared_expert_intermediate_size", limit="ffn", default=7688, minimum=0)
    return Experts(
        experts=config.size(*ROUTED, limit="experts"),
        top_k=top_k(config, *ROUTED),
        ffn=config.size("moe_intermediate_size", limit="ffn"),
        gated=False,
        activation=config.activation("mlp_hidden_act", default="relu2"),
        shared_ffn=shared or config.size("intermediate_size", limit="ffn"),
        shared_bias=config.flag("mlp_bias"),
        correction_bias=True,
        router_scale=config.number("routed_scaling_factor", default=1.0) or 1.0,
    )
