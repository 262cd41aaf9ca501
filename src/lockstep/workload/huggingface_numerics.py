"""Numbers of a Hugging Face config that no count or time asks for, and that other software has to be told.

They are the epsilon of the norms, the base and stretch of rotary positions, and multipliers on the residual stream.
Configs leave out what equals their library's default, so each family's stands here.
Source: the `configuration_*.py` files of github.com/huggingface/transformers, 4.57.
"""

from __future__ import annotations

from typing import Any

from lockstep.workload.architecture import Rotary
from lockstep.workload.config_reader import ConfigReader

EPSILONS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps")
MULTIPLIERS = ("embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling")
EPSILON = {
    "deepseek_v2": 1e-6, "deepseek_v3": 1e-6, "gemma": 1e-6, "gemma2": 1e-6, "gemma3_text": 1e-6, "gpt2": 1e-5,
    "gpt_bigcode": 1e-5, "gpt_neox": 1e-5, "granite": 1e-6, "llama": 1e-6, "mistral": 1e-6, "mixtral": 1e-5,
    "nemotron": 1e-5, "olmo2": 1e-5, "phi": 1e-5, "phi3": 1e-5, "qwen2": 1e-6, "qwen2_moe": 1e-6, "qwen3": 1e-6,
    "qwen3_moe": 1e-6, "starcoder2": 1e-5,
}  # fmt: skip
BASE = {"mixtral": 1e6}
"""Of rotary positions; 10,000 elsewhere."""
SHARE = {"nemotron": 0.5, "phi": 0.5, "gpt_neox": 0.25}
"""Share of a head that is rotated; all of it elsewhere."""


def numerics(kind: str, config: ConfigReader) -> dict[str, Any]:
    """Fields of `Transformer` for a model type. Raises BadInput at "file:line"."""
    text = config.table("text_config") if config.has("text_config") else config
    given = {key: text.number(key) for key in MULTIPLIERS}
    return {
        "norm_epsilon": text.number(*EPSILONS, default=EPSILON.get(kind)),
        "rotary": _rotary(kind, text),
        "scaled_stream": kind == "granite" and any(value not in (None, 1.0) for value in given.values()),
    }


def _rotary(kind: str, config: ConfigReader) -> Rotary:
    """The base and the stretch of the angles, which a model without rotary positions does not use."""
    stretch = config.table("rope_scaling", "rope_parameters")
    own = config if config.has("rope_theta", "rotary_emb_base") else stretch
    scaling = stretch.data.get("rope_type", stretch.data.get("type", "none"))
    numbers = {
        "base": own.number("rope_theta", "rotary_emb_base", default=BASE.get(kind, 10_000.0)),
        "share_frac": config.number("partial_rotary_factor", "rotary_pct", default=SHARE.get(kind, 1.0)),
        "factor": stretch.number("factor", default=1.0),
        "low_freq_factor": stretch.number("low_freq_factor", default=1.0),
        "high_freq_factor": stretch.number("high_freq_factor", default=4.0),
        "beta_fast": stretch.number("beta_fast", default=32.0),
        "beta_slow": stretch.number("beta_slow", default=1.0),
        "mscale": stretch.number("mscale", default=1.0),
        "mscale_all_dim": stretch.number("mscale_all_dim", default=0.0) if stretch.data.get("mscale_all_dim") else 0.0,
    }
    original = "original_max_position_embeddings"
    return Rotary(
        scaling="none" if scaling == "default" else str(scaling)[:40],
        original_positions=stretch.size(original, limit="positions") if stretch.has(original) else None,
        **{name: value for name, value in numbers.items() if value is not None},
    )
