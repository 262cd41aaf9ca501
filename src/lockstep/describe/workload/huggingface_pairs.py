"""Encoders with decoders in Hugging Face configs: `modeling_t5.py` of github.com/huggingface/transformers, 5.24."""

from __future__ import annotations

from dataclasses import replace

from lockstep.describe.workload.architecture import Attention, Mlp, Transformer
from lockstep.describe.workload.config_reader import ConfigReader

GATED = "gated-"


TIED = """tie_word_embeddings=false gives the head a table of its own, as weights of T5 1.1 have; the class of
transformers 5 ties the tables of a new model all the same""".replace("\n", " ")
MT5 = {"num_heads": 6, "num_layers": 8, "d_ff": 1024, "vocab_size": 250112}
T5 = {"num_heads": 8, "num_layers": 6, "d_ff": 2048, "vocab_size": 32128}
"""Sizes where a file lets them out."""


def t5(config: ConfigReader) -> Transformer:
    """T5 and mT5: an encoder and a decoder without biases, scores for relative positions, one table of tokens."""
    # Of releases after 1.1 the blocks are gated and the head has a table of its own.
    multilingual = config.data.get("model_type") == "mt5"
    own = MT5 if multilingual else T5
    heads = config.size("num_heads", "num_attention_heads", limit="heads", default=own["num_heads"])
    width = config.size("d_kv", "head_dim", limit="head_dim", default=64)
    encoder = config.size("num_layers", "num_hidden_layers", limit="layers", default=own["num_layers"])
    tied = config.is_null("tie_word_embeddings") or config.flag("tie_word_embeddings", default=True)
    decoder = config.size("num_layers", limit="layers", default=own["num_layers"])
    return Transformer(
        name="t5",
        layers=encoder + config.size("num_decoder_layers", limit="layers", default=decoder),
        encoder_layers=encoder,
        hidden=config.size("d_model", "hidden_size", limit="hidden", default=512),
        vocab=config.size("vocab_size", limit="vocab", default=own["vocab_size"]),
        max_positions=config.size("n_positions", limit="positions", default=512),
        attention=Attention(heads=heads, kv_heads=heads, head_dim=width),
        mlp=_block(config, "gated-gelu" if multilingual else "relu", own["d_ff"]),
        positions="relative",
        buckets=config.size("relative_attention_num_buckets", limit="positions", default=32),
        tied_embeddings=tied,
        notes=() if tied else (TIED,),
    )


def _block(config: ConfigReader, default: str, ffn: int) -> Mlp:
    """The feed-forward block, whose activation may be gated; `is_gated_act`, which files repeat, has the last word."""
    name = "feed_forward_proj"
    given = config.data.get(name)
    word = given if isinstance(given, str) else default
    plain = (
        replace(config, data={name: word.removeprefix(GATED)}) if given is None or isinstance(given, str) else config
    )
    return Mlp(
        ffn=config.size("d_ff", limit="ffn", default=ffn),
        gated=config.flag("is_gated_act", default=word.startswith(GATED)),
        activation=plain.activation(name),
    )
