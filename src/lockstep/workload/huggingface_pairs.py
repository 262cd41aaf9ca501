"""Encoders with decoders in Hugging Face configs: `modeling_t5.py` of github.com/huggingface/transformers, 5.24."""

from __future__ import annotations

from dataclasses import replace

from lockstep.workload.architecture import Attention, Mlp, Transformer
from lockstep.workload.config_reader import ConfigReader

GATED = "gated-"


def t5(config: ConfigReader) -> Transformer:
    """T5 and mT5: an encoder and a decoder without biases, scores for relative positions, one table of tokens."""
    heads = config.size("num_heads", limit="heads", default=8)
    encoder = config.size("num_layers", limit="layers", default=6)
    # Of releases after 1.1 the blocks are gated and the head has a table of its own.
    multilingual = config.data.get("model_type") == "mt5"
    return Transformer(
        name="t5",
        layers=encoder + config.size("num_decoder_layers", limit="layers", default=encoder),
        encoder_layers=encoder,
        hidden=config.size("d_model", limit="hidden", default=512),
        vocab=config.size("vocab_size", limit="vocab", default=250112 if multilingual else 32128),
        max_positions=config.size("n_positions", limit="positions", default=512),
        attention=Attention(heads=heads, kv_heads=heads, head_dim=config.size("d_kv", limit="head_dim", default=64)),
        mlp=_block(config, "gated-gelu" if multilingual else "relu"),
        positions="relative",
        buckets=config.size("relative_attention_num_buckets", limit="positions", default=32),
        tied_embeddings=config.flag("tie_word_embeddings", default=True),
    )


def _block(config: ConfigReader, default: str) -> Mlp:
    """The feed-forward block, whose activation may be gated."""
    name = "feed_forward_proj"
    given = config.data.get(name)
    word = given if isinstance(given, str) else default
    plain = (
        replace(config, data={name: word.removeprefix(GATED)}) if given is None or isinstance(given, str) else config
    )
    return Mlp(
        ffn=config.size("d_ff", limit="ffn", default=2048),
        gated=word.startswith(GATED),
        activation=plain.activation(name),
    )
