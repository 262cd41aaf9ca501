"""Dense families of Hugging Face configs: what each `model_type` calls its sizes, its defaults and fixed habits."""

from __future__ import annotations

from typing import Any

from lockstep.errors import BadInput
from lockstep.types.plain import Json
from lockstep.workload.architecture import Attention, Mlp, Transformer
from lockstep.workload.config_reader import ConfigReader
from lockstep.workload.huggingface_numbers import KV_HEADS

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


def refuse_crossing(config: ConfigReader) -> None:
    """Raises BadInput where every layer also attends to an encoder that is another model's."""
    if config.flag("add_cross_attention"):
        config.refuse("add_cross_attention", "layers that attend to the output of another model are not described")


def gpt2(config: ConfigReader) -> Transformer:
    """GPT-2 and GPT-3: learned positions, biases, tied embeddings."""
    refuse_crossing(config)
    return Transformer(
        **sizes(config, 1024, tied=True),
        attention=attention(config, qkv_bias=True, out_bias=True),
        mlp=plain(config, True, four_hidden(config)),
        norm="layernorm",
        positions="learned",
    )


def gpt_bigcode(config: ConfigReader) -> Transformer:
    """SantaCoder and StarCoder: GPT-2 with one key-value head."""
    refuse_crossing(config)
    kv_heads = 1 if config.flag("multi_query", default=True) else config.size(*HEADS, limit="heads")
    return Transformer(
        **sizes(config, 1024, tied=True),
        attention=attention(config, kv_heads=kv_heads, qkv_bias=True, out_bias=True),
        mlp=plain(config, True, four_hidden(config)),
        norm="layernorm",
        positions="learned",
    )


def gpt_neox(config: ConfigReader) -> Transformer:
    """GPT-NeoX and Pythia: parallel block with a norm each, biases everywhere but on the head."""
    return Transformer(
        **sizes(config, 2048),
        attention=attention(config, **both_biases(config, True)),
        mlp=plain(config, True),
        norm="layernorm",
        parallel_block=config.flag("use_parallel_residual", default=True),
        parallel_norms=2,
    )


def gptj(config: ConfigReader) -> Transformer:
    """GPT-J: parallel block with one norm; biases in the feed-forward block and on the head."""
    return Transformer(
        **sizes(config, 2048),
        attention=attention(config),
        mlp=plain(config, True, four_hidden(config)),
        norm="layernorm",
        parallel_block=True,
        head_bias=True,
    )


def opt(config: ConfigReader) -> Transformer:
    """OPT: the GPT-3 shape with ReLU and two spare positions; the odd 350M variant is not described."""
    shape = sizes(config, 2048, tied=True)
    if config.size("word_embed_proj_dim", limit="hidden", default=shape["hidden"]) != shape["hidden"]:
        config.refuse("word_embed_proj_dim", f"embeddings must be as wide as the hidden size {shape['hidden']}")
    if not config.flag("do_layer_norm_before", default=True):
        config.refuse("do_layer_norm_before", "only OPT models with norms before each block are described")
    biased = config.flag("enable_bias", default=True)
    return Transformer(
        **shape,
        attention=attention(config, qkv_bias=biased, out_bias=biased),
        mlp=plain(config, biased, activation="relu"),
        norm="layernorm" if config.flag("layer_norm_elementwise_affine", default=True) else "nonparametric",
        final_norm=not config.flag("_remove_final_layer_norm"),
        positions="learned",
        extra_positions=2,
    )


def bloom(config: ConfigReader) -> Transformer:
    """BLOOM: ALiBi, a norm on the embeddings, biases."""
    return Transformer(
        **sizes(config, 2048, tied=True),
        attention=attention(config, qkv_bias=True, out_bias=True),
        mlp=plain(config, True, four_hidden(config)),
        norm="layernorm",
        positions="alibi",
        embedding_norm=True,
    )


def falcon(config: ConfigReader) -> Transformer:
    """Falcon: one key-value head (7B) or a few with a norm each for both blocks (40B, 180B)."""
    newer = config.flag("new_decoder_architecture")
    kv_heads = None
    if newer:
        kv_heads = config.size(
            "num_kv_heads", "n_head_kv", limit="kv_heads", default=config.size(*HEADS, limit="heads")
        )
    elif config.flag("multi_query", default=True):
        kv_heads = 1
    biased = config.flag("bias")
    norms = config.size("num_ln_in_parallel_attn", limit="layers", default=2 if newer else 1)
    if norms > 1 and not newer:
        config.refuse("num_ln_in_parallel_attn", "two norms go with new_decoder_architecture, whose layers use them")
    return Transformer(
        **sizes(config, 2048, tied=True),
        attention=attention(config, kv_heads=kv_heads, qkv_bias=biased, out_bias=biased),
        mlp=plain(config, biased, four_hidden(config)),
        norm="layernorm",
        positions="alibi" if config.flag("alibi") else "rotary",
        parallel_block=newer or config.flag("parallel_attn", default=True),
        parallel_norms=norms if newer else 1,
    )


def mpt(config: ConfigReader) -> Transformer:
    """MPT as llm-foundry builds it: ALiBi, rotary or learned positions; with no_bias, no biases in norms either."""
    inner = config.table("attn_config")
    biased = not config.flag("no_bias", default=True)
    kind = inner.data.get("attn_type")
    kv_heads = 1 if kind == "multiquery_attention" else None
    if kv_heads is None and inner.has("kv_n_heads"):
        kv_heads = inner.size("kv_n_heads", limit="kv_heads")
    if inner.flag("qk_ln"):
        inner.refuse("qk_ln", "norms over the joint width of queries are not described for MPT")
    learned = config.flag("learned_pos_emb", default=True)
    alibi = inner.flag("alibi", default=True)
    positions = "alibi" if alibi else "rotary" if inner.flag("rope") else "learned" if learned else "none"
    shape = sizes(config, 2048, tied=True)
    ratio = config.size("expansion_ratio", limit="ffn", default=4)
    ignored = {
        "expansion_ratio": ratio != 4,
        "no_bias": biased,
        "attn_config.attn_type": kind == "multiquery_attention",
        "attn_config.kv_n_heads": inner.has("kv_n_heads"),
        "attn_config.alibi with learned_pos_emb": positions == "learned",
    }
    names = ", ".join(name for name, differs in ignored.items() if differs)
    return Transformer(
        **shape,
        attention=attention(
            config, kv_heads=kv_heads or config.size(*HEADS, limit="heads"), qkv_bias=biased, out_bias=biased
        ),
        mlp=Mlp(ffn=ratio * shape["hidden"], gated=False, activation="gelu", in_bias=biased, out_bias=biased),
        norm="layernorm" if biased else "layernorm-no-bias",
        positions=positions,
        notes=(f"read as llm-foundry builds it; the class of transformers ignores {names}",) if names else (),
    )


def bert(config: ConfigReader) -> Transformer:
    """BERT and RoBERTa as an encoder with pooler; RoBERTa's table keeps pad_token_id + 1 spare rows."""
    refuse_crossing(config)
    if config.flag("is_decoder"):
        config.refuse("is_decoder", "only the encoder is described")
    shape = sizes(config, tied=True)
    spare = 0
    if config.data.get("model_type") == "roberta":
        spare = 1 + config.size("pad_token_id", limit="vocab", default=1, minimum=0)
        if not spare < shape["max_positions"] or spare > 1000:
            raise BadInput(f"pad_token_id={spare - 1} leaves no positions; RoBERTa has 1", config.where("pad_token_id"))
        shape["max_positions"] -= spare
    return Transformer(
        **shape,
        attention=attention(config, qkv_bias=True, out_bias=True, causal=False),
        mlp=plain(config, True),
        norm="layernorm",
        norm_placement="post",
        final_norm=False,
        positions="learned",
        extra_positions=spare,
        embedding_norm=True,
        token_types=config.size("type_vocab_size", limit="layers", default=2),
        pooler=True,
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
