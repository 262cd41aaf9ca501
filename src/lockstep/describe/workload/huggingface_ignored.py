"""Keys of a config.json that other families' classes know and this one's does not: they change nothing, and are named.

Readers of families share what they read, so that a key of one could change the description of another, whose class in
transformers never looks at it. Source: `modeling_*.py` of github.com/huggingface/transformers, 5.24, as
tests/real counts their parameters.
"""

from __future__ import annotations

from dataclasses import replace

from lockstep.describe.workload.config_reader import ConfigReader

_UNKNOWN = {
    "mlp_bias": """cohere cohere2 deepseek_v3 dots1 ernie4_5 ernie4_5_moe exaone4 gemma gemma2 gemma3 gemma3_text glm
    glm4 glm4_moe hunyuan_v1_dense jamba kimi_k2 ministral3 mistral olmo olmo2 olmo3 phi3 qwen2 qwen2_5_vl
    qwen2_5_vl_text qwen2_vl qwen2_vl_text qwen3 qwen3_5 qwen3_5_text qwen3_vl qwen3_vl_text stablelm vaultgemma
    youtu""",
    "use_bias": """arcee bamba cohere cohere2 flex_olmo gemma gemma2 gemma3 gemma3_text granite granitemoe
    granitemoehybrid granitemoeshared hunyuan_v1_dense llama llama4 llama4_text nanochat nemotron olmo olmo2 olmo3
    olmoe phimoe qwen3 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next qwen3_vl qwen3_vl_moe
    qwen3_vl_moe_text qwen3_vl_text smollm3 vaultgemma""",
    "num_key_value_heads": "bert biogpt bloom codegen gpt2 gpt_neo gpt_neox gptj opt roberta",
    "head_dim": """bert biogpt bloom codegen dbrx gpt2 gpt_bigcode gpt_neo gpt_neox gptj mpt opt qwen2_5_vl
    qwen2_5_vl_text qwen2_vl qwen2_vl_text roberta stablelm""",
    "intermediate_size": "bloom codegen falcon gpt2 gpt_bigcode gptj opt",
    "shared_intermediate_size": "granitemoe",
}
UNKNOWN = {key: frozenset(kinds.split()) for key, kinds in _UNKNOWN.items()}
"""Key -> model types whose classes do not know it."""


def known(kind: str, config: ConfigReader) -> ConfigReader:
    """`config` without the keys that the class of a model type does not know."""
    left_out = {key for key, kinds in UNKNOWN.items() if kind in kinds}
    return replace(config, data={key: value for key, value in config.data.items() if key not in left_out})


def ignored(kind: str, config: ConfigReader) -> tuple[str, ...]:
    """A sentence per key of the file that says something and that the class of a model type does not know."""
    there = [key for key, kinds in UNKNOWN.items() if kind in kinds and config.data.get(key) not in (None, False)]
    return tuple(f"{key} is ignored: the class of {kind} in transformers does not know it" for key in there)
