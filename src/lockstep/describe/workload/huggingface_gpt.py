"""GPT-2's kin and BERT in Hugging Face configs: blocks without gates, norms with biases, positions learned, rotary or
added to scores.
"""

from __future__ import annotations

from lockstep.base.errors import BadInput
from lockstep.describe.workload.architecture import Mlp, Transformer
from lockstep.describe.workload.config_reader import ConfigReader
from lockstep.describe.workload.huggingface_decoders import HEADS, attention, both_biases, four_hidden, plain, sizes


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
        mlp=plain(config, True, four_hidden(config), "gelu_new"),
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
