"""Models of recurrent layers alone: `modeling_mamba.py`, `modeling_mamba2.py` of github.com/huggingface/transformers,
5.24.
"""

from __future__ import annotations

import math

from lockstep.describe.workload.architecture import Attention, Transformer
from lockstep.describe.workload.config_reader import ConfigReader
from lockstep.describe.workload.recurrent import Mamba, Mamba2, Recurrent

LONGEST = 2**20
"""Of a sequence; the layers know no end, and their files say none."""


def mamba(config: ConfigReader) -> Transformer:
    """Mamba: layers of one selective scan each."""
    hidden = config.size("hidden_size", limit="hidden", default=768)
    given = config.data.get("time_step_rank", "auto")
    mixer = Mamba(
        inner=config.size("intermediate_size", limit="ffn", default=_widened(config, hidden)),
        state=config.size("state_size", limit="head_dim", default=16),
        rank=math.ceil(hidden / 16) if given == "auto" else config.size("time_step_rank", limit="hidden"),
        conv=config.size("conv_kernel", limit="head_dim", default=4),
        bias=config.flag("use_bias"),
        conv_bias=config.flag("use_conv_bias", default=True),
    )
    return _alone(config, hidden, mixer, vocab=50280, layers=32, tied=True)


def mamba2(config: ConfigReader) -> Transformer:
    """Mamba-2: the same with heads."""
    hidden = config.size("hidden_size", limit="hidden", default=4096)
    heads = config.size("num_heads", limit="heads", default=128)
    groups = config.size("n_groups", limit="heads", default=8)
    config.must_divide("n_groups", groups, heads, "num_heads")
    mixer = Mamba2(
        heads=heads,
        head_dim=config.size("head_dim", limit="head_dim", default=64),
        state=config.size("state_size", limit="head_dim", default=128),
        groups=groups,
        conv=config.size("conv_kernel", limit="head_dim", default=4),
        chunk=config.size("chunk_size", limit="positions", default=256),
        bias=config.flag("use_bias"),
        conv_bias=config.flag("use_conv_bias", default=True),
    )
    if mixer.inner != _widened(config, hidden):
        config.refuse("num_heads", f"heads of {mixer.head_dim} must make up expand * hidden_size channels")
    return _alone(config, hidden, mixer, vocab=32768, layers=64, tied=False)


def _widened(config: ConfigReader, hidden: int) -> int:
    return config.size("expand", limit="heads", default=2) * hidden


def _alone(config: ConfigReader, hidden: int, mixer: Recurrent, *, vocab: int, layers: int, tied: bool) -> Transformer:
    """A model whose every layer is `mixer`. Its attention describes no layer; it has the heads that are split."""
    return Transformer(
        name="recurrent",
        layers=config.size("num_hidden_layers", "n_layer", limit="layers", default=layers),
        hidden=hidden,
        vocab=config.size("vocab_size", limit="vocab", default=vocab),
        max_positions=LONGEST,
        attention=Attention(heads=mixer.heads, kv_heads=mixer.heads, head_dim=1),
        recurrent=mixer,
        pattern=("recurrent/none",),
        positions="none",
        tied_embeddings=config.flag("tie_word_embeddings", default=tied),
    )
