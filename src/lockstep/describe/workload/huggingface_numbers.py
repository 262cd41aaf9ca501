"""Numbers of a Hugging Face config.json that no count or time asks for, and that other software has to be told.

The epsilon of the norms, the base and stretch of rotary positions, and multipliers on the residual stream. Configs
leave out what equals their library's default, so each family's stands here.
"""

from __future__ import annotations

from lockstep.base.types.plain import Json
from lockstep.describe.workload.architecture import Rotary
from lockstep.describe.workload.config_reader import ConfigReader

EPSILONS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps")
MULTIPLIERS = ("embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling")
_EPSILON = {
    1e-5: """arcee bamba codegen cohere2 cwm ernie4_5 ernie4_5_moe exaone4 glm4_moe gpt2 gpt_bigcode gpt_neo
    gpt_neox gpt_oss hunyuan_v1_dense jais2 llama4 llama4_text mamba mamba2 minicpm3 ministral3 mixtral nemotron
    nemotron_h olmo2 olmo3 olmoe phi phi3 phimoe qwen2_5_vl qwen2_5_vl_text qwen2_vl qwen2_vl_text solar_open
    stablelm starcoder2""",
    1e-6: """deepseek_v2 deepseek_v3 dots1 flex_olmo gemma gemma2 gemma3_text granite granitemoe granitemoehybrid
    granitemoeshared jamba kimi_k2 llama minimax_m2 mistral mt5 nanochat qwen2 qwen2_moe qwen3 qwen3_5 qwen3_5_moe
    qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next qwen3_vl qwen3_vl_moe qwen3_vl_moe_text qwen3_vl_text
    seed_oss smollm3 t5 vaultgemma youtu""",
    1.5625e-7: "glm glm4",
    1e-8: "helium",
    1e-12: "biogpt vit",
}
_BASE = {
    1e5: "helium",
    1e6: "cwm ministral3 mixtral phimoe qwen2_5_vl qwen2_5_vl_text qwen2_vl qwen2_vl_text solar_open",
    5e6: "minimax_m2",
    5e5: """ernie4_5 ernie4_5_moe flex_olmo llama4 llama4_text olmo3 qwen3_vl qwen3_vl_moe qwen3_vl_moe_text
    qwen3_vl_text""",
    150_000.0: "gpt_oss",
    2e6: "smollm3",
}  # fmt: skip
"""Of rotary positions; 10,000 elsewhere."""
_SHARE = {
    0.25: "gpt_neox qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen3_next stablelm",
    0.5: "bamba glm glm4 glm4_moe nemotron phi",
}
"""Share of a head that is rotated; all of it elsewhere."""
_KV_HEADS = {
    2: "ernie4_5 glm glm4 qwen3_5_moe qwen3_5_moe_text qwen3_next starcoder2",
    4: "ernie4_5_moe gemma2 gemma3 gemma3_text qwen3_5 qwen3_5_text qwen3_moe smollm3 vaultgemma",
    8: """bamba cwm glm4_moe gpt_oss jamba llama4 llama4_text minimax_m2 ministral3 mistral mixtral nemotron_h
    phimoe qwen2_5_vl qwen2_5_vl_text qwen2_vl qwen2_vl_text seed_oss solar_open""",
    16: "gemma qwen2_moe qwen3_vl_moe qwen3_vl_moe_text",
    20: "helium",
    32: "dots1 exaone4 qwen2 qwen3 qwen3_vl qwen3_vl_text stablelm",
}
"""Key and value heads where a file lets them out; as many as query heads elsewhere, and where it says null."""
KV_HEADS = {kind: number for number, kinds in _KV_HEADS.items() for kind in kinds.split()}
EPSILON, BASE, SHARE = (
    {kind: number for number, kinds in table.items() for kind in kinds.split()} for table in (_EPSILON, _BASE, _SHARE)
)


def numerics(kind: str, config: ConfigReader) -> Json:
    """Fields of `Transformer` for a model type. Raises BadInput at "file:line"."""
    given = {key: config.number(key) for key in MULTIPLIERS}
    return {
        "norm_epsilon": config.number(*EPSILONS, default=EPSILON.get(kind)),
        "rotary": _rotary(kind, config),
        "scaled_stream": kind == "granite" and any(value not in (None, 1.0) for value in given.values()),
    }


def _rotary(kind: str, config: ConfigReader) -> Rotary:
    """The base and the stretch of the angles, which a model without rotary positions does not use."""
    stretch = config.table("rope_scaling", "rope_parameters")
    stretch = stretch.table("full_attention") if stretch.has("full_attention") else stretch
    own = config if config.has("rope_theta", "rotary_emb_base") else stretch
    scaling = stretch.data.get("rope_type", stretch.data.get("type", "none"))
    numbers = {
        "base": own.number("rope_theta", "rotary_emb_base", default=BASE.get(kind, 10_000.0)),
        "share_frac": (config if config.has("partial_rotary_factor", "rotary_pct") else stretch).number(
            "partial_rotary_factor", "rotary_pct", default=SHARE.get(kind, 1.0)
        ),
        "factor": stretch.number("factor", default=1.0),
        "low_freq_factor": stretch.number("low_freq_factor", default=1.0),
        "high_freq_factor": stretch.number("high_freq_factor", default=4.0),
        "beta_fast": stretch.number("beta_fast", default=32.0),
        "beta_slow": stretch.number("beta_slow", default=1.0),
        "mscale": stretch.number("mscale", default=1.0),
        "mscale_all_dim": stretch.number("mscale_all_dim", default=0.0) if stretch.data.get("mscale_all_dim") else 0.0,
    }
    if (numbers["share_frac"] or 0.0) > 1.0:
        one = config if config.has("partial_rotary_factor", "rotary_pct") else stretch
        name = next(name for name in ("partial_rotary_factor", "rotary_pct") if one.has(name))
        one.refuse(name, "at most all of a head is rotated")
    original = "original_max_position_embeddings"
    return Rotary(
        scaling="none" if scaling == "default" else str(scaling)[:40],
        original_positions=stretch.size(original, limit="positions") if stretch.has(original) else None,
        **{name: value for name, value in numbers.items() if value is not None},
    )
