"""Dense families of Hugging Face configs: what each `model_type` calls its sizes, its defaults and fixed habits."""

from __future__ import annotations

from typing import Any

from lockstep.base.errors import BadInput
from lockstep.base.types.plain import Json
from lockstep.describe.workload.architecture import Attention, Mlp, Transformer
from lockstep.describe.workload.config_reader import ConfigReader
from lockstep.describe.workload.huggingface_numbers import KV_HEADS

HIDDEN = ("hidden_size", "n_embd", "d_model", "n_embed")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads")
POSITIONS = ("max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_seq_len")
FFN = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")


def sizes(config: ConfigReader, positions: int | None = None, tied: bool = False, **defaults: int) -> Json:
    """The fields that every family has; `positions`, `tied` and `defaults` are what the family takes when absent."""
    return {
        "name": str(config.data.get("model_type", "model")),
        "layers": config.size(*LAYERS, limit="layers", default=defaults.get("layers")),
        "hidden": config.size(*HIDDEN, limit="hidden"),
        "vocab": config.size("vocab_size", limit="vocab", default=defaults.get("vocab")),
        "max_positions": config.size(*POSITIONS, limit="positions", default=positions),
        "tied_embeddings": config.flag("tie_word_embeddings", default=tied),
    }


def attention(config: ConfigReader, head_dim: int | None = None, **habits: Any) -> Attention:
    """Heads, grouped keys and values, and head width; `habits` are fixed by the family."""
    heads = config.size(*HEADS, limit="heads", default=habits.pop("default_heads", None))
    kv_heads = habits.pop("kv_heads", None)
    if kv_heads is None:
        kv_heads = key_value_heads(config, heads)
    divides_heads(config, kv_heads, heads)
    hidden = config.size(*HIDDEN, limit="hidden")
    width = config.head_dim(hidden, heads, head_dim)
    return Attention(heads=heads, kv_heads=kv_heads, head_dim=width, **habits)


def key_value_heads(config: ConfigReader, heads: int) -> int:
    """Heads of keys and values: given, or the family's own number where absent, or as many as query heads."""
    name = "num_key_value_heads"
    own = None if config.is_null(name) else KV_HEADS.get(str(config.data.get("model_type")))
    return divides_heads(config, config.size(name, limit="kv_heads", default=own or heads), heads)


def divides_heads(config: ConfigReader, kv_heads: int, heads: int) -> int:
    """`kv_heads`. Raises BadInput unless they divide the query heads."""
    if heads % kv_heads:
        message = f"{kv_heads} key-value heads do not divide {heads} attention heads"
        raise BadInput(message, config.where("num_key_value_heads", "num_kv_heads", "num_attention_heads"))
    return kv_heads


def both_biases(config: ConfigReader, default: bool = False) -> dict[str, bool]:
    """`attention_bias` puts a bias on all four projections."""
    biased = config.flag("attention_bias", "use_bias", default=default)
    return {"qkv_bias": biased, "out_bias": biased}


def gated(config: ConfigReader, default: str = "", ffn: tuple[str, ...] = FFN) -> Mlp:
    """A gated block; `mlp_bias` biases all three projections."""
    biased = config.flag("mlp_bias")
    return Mlp(
        ffn=config.size(*ffn, limit="ffn"),
        activation=config.activation("hidden_act", "hidden_activation", default=default or "silu"),
        in_bias=biased,
        out_bias=biased,
    )


def plain(config: ConfigReader, biased: bool, default: int | None = None, activation: str = "gelu") -> Mlp:
    """A block without a gate; `default` is its inner width when the file gives none."""
    names = ("hidden_act", "activation_function", "activation")
    return Mlp(
        ffn=config.size(*FFN, limit="ffn", default=default),
        gated=False,
        activation=config.activation(*names, default=activation),
        in_bias=biased,
        out_bias=biased,
    )


def window(config: ConfigReader) -> int | None:
    """`sliding_window`, None when absent."""
    return config.size("sliding_window", limit="positions") if config.has("sliding_window") else None


def four_hidden(config: ConfigReader) -> int:
    """The usual inner width where a family lets it out."""
    return 4 * config.size(*HIDDEN, limit="hidden")


def llama(config: ConfigReader) -> Transformer:
    """Llama 1 to 3 and Granite."""
    return Transformer(**sizes(config, 2048), attention=attention(config, **both_biases(config)), mlp=gated(config))


def mistral(config: ConfigReader) -> Transformer:
    """Mistral: Llama with a sliding window, unless null; of the newer kind with heads of 128."""
    own = 128 if config.data.get("model_type") == "ministral3" else None
    heads = attention(config, head_dim=own, window=window(config))
    return Transformer(**sizes(config, 131072), attention=heads, mlp=gated(config))


def phi3(config: ConfigReader) -> Transformer:
    """Phi-3: Llama's block, fused in its files."""
    return Transformer(**sizes(config, 4096), attention=attention(config, window=window(config)), mlp=gated(config))


def qwen2(config: ConfigReader) -> Transformer:
    """Qwen 1.5 to 2.5: biases on queries, keys and values; layers from max_window_layers on may be local."""
    local = window(config) if config.flag("use_sliding_window") else None
    first = config.size("max_window_layers", limit="layers", default=28, minimum=0) if local else 0
    habits = {"qkv_bias": True, "window": local, "first_local": first}
    return Transformer(**sizes(config, 32768), attention=attention(config, **habits), mlp=gated(config))


def qwen3(config: ConfigReader) -> Transformer:
    """Qwen3: norms on queries and keys instead of biases, heads of 128."""
    habits = both_biases(config)
    heads = attention(config, head_dim=128, qk_norm="head", **habits)
    return Transformer(**sizes(config, 32768), attention=heads, mlp=gated(config))


def gemma(config: ConfigReader) -> Transformer:
    """Gemma 1: wide heads, tied embeddings."""
    heads = attention(config, head_dim=256, **both_biases(config))
    return Transformer(**sizes(config, 8192, tied=True), attention=heads, mlp=gated(config, "gelu"))


def gemma2(config: ConfigReader) -> Transformer:
    """Gemma 2: norms before and after each block; every second layer is global."""
    local = config.size("sliding_window", limit="positions", default=4096)
    heads = attention(config, head_dim=256, window=local, global_every=2, **both_biases(config))
    shape = sizes(config, 8192, tied=True)
    return Transformer(**shape, attention=heads, mlp=gated(config, "gelu"), norm_placement="sandwich")


def gemma3(config: ConfigReader) -> Transformer:
    """Gemma 3, text part: as Gemma 2 with norms on queries and keys, one global layer in six.

    Its files leave out what equals the library's defaults: 262,208 tokens, 8 heads, 4 key-value heads of 256.
    """
    text = config
    local = text.size("sliding_window", limit="positions", default=4096)
    every = text.size("sliding_window_pattern", "_sliding_window_pattern", limit="layers", default=6)
    habits = {"window": local, "global_every": every, "qk_norm": "head", **both_biases(text)}
    heads = attention(text, head_dim=256, default_heads=8, **habits)
    shape = sizes(text, 131072, tied=True, vocab=262208)
    return Transformer(**shape, attention=heads, mlp=gated(text, "gelu"), norm_placement="sandwich")


def phi(config: ConfigReader) -> Transformer:
    """Phi-1 and Phi-2: parallel block with one norm, biases everywhere, also on the head."""
    if config.flag("qk_layernorm"):
        config.refuse("qk_layernorm", "norms with biases on queries and keys are not described")
    heads = attention(config, qkv_bias=True, out_bias=True)
    return Transformer(
        **sizes(config, 2048),
        attention=heads,
        mlp=plain(config, True),
        norm="layernorm",
        parallel_block=True,
        head_bias=True,
    )


def olmo(config: ConfigReader) -> Transformer:
    """OLMo 1: norms without parameters."""
    heads = attention(config, **both_biases(config))
    return Transformer(**sizes(config, 2048), attention=heads, mlp=gated(config), norm="nonparametric")


def olmo2(config: ConfigReader) -> Transformer:
    """OLMo 2: norms on the output of each block, and on queries and keys over their full width."""
    heads = attention(config, qk_norm="full", **both_biases(config))
    return Transformer(**sizes(config, 2048), attention=heads, mlp=gated(config), norm_placement="output")


def starcoder2(config: ConfigReader) -> Transformer:
    """StarCoder2: plain block, biases, sliding window."""
    biases = both_biases(config, True)
    return Transformer(
        **sizes(config, 4096, tied=True),
        attention=attention(config, window=window(config), **biases),
        mlp=plain(config, biases["qkv_bias"]),
        norm="layernorm",
    )


def cohere(config: ConfigReader) -> Transformer:
    """Command R: parallel gated block, norms without biases; the plus variant norms each query and key head."""
    per_head = "per-head" if config.flag("use_qk_norm") else "none"
    return Transformer(
        **sizes(config, 8192, tied=True),
        attention=attention(config, qk_norm=per_head, **both_biases(config)),
        mlp=gated(config),
        norm="layernorm-no-bias",
        parallel_block=True,
    )


def nemotron(config: ConfigReader) -> Transformer:
    """Nemotron-4 and Minitron: squared ReLU without a gate, LayerNorm."""
    return Transformer(
        **sizes(config, 4096),
        attention=attention(config, **both_biases(config)),
        mlp=plain(config, config.flag("mlp_bias"), activation="relu2"),
        norm="layernorm",
    )
