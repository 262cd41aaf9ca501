"""What a config.json leaves out is what its library would take: written out it changes nothing, another value does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lockstep import workload
from lockstep.base.errors import BadInput

CONFIGS = Path(__file__).parent / "configs"
BIGCODE = {"model_type": "gpt_bigcode", "n_embd": 6144, "n_layer": 40, "n_head": 48, "n_positions": 8192,
           "vocab_size": 49152}  # fmt: skip
LEFT_OUT: dict[str, dict[str, tuple[Any, Any]]] = {
    "gpt_bigcode": {"multi_query": (True, False)},
    "llama3-8b": {"attention_bias": (False, True), "mlp_bias": (False, True), "tie_word_embeddings": (False, True)},
    "falcon-7b": {"multi_query": (True, False), "parallel_attn": (True, False), "bias": (False, True),
                  "alibi": (False, True), "new_decoder_architecture": (False, True)},
    "gpt-neox-20b": {"use_parallel_residual": (True, False)},
    "opt-6b7": {"do_layer_norm_before": (True, False), "enable_bias": (True, False)},
    "mpt-7b-released": {"no_bias": (True, False), "expansion_ratio": (4, 8)},
    "gemma2-9b": {"sliding_window": (4096, 1024)},
    "gemma3-1b": {"sliding_window": (4096, 1024), "sliding_window_pattern": (6, 3)},
    "phi-2": {"qk_layernorm": (False, True)},
    "bert-large": {"type_vocab_size": (2, 4), "is_decoder": (False, True)},
    "roberta-large": {"pad_token_id": (1, 3)},
    "qwen2.5-7b": {"use_sliding_window": (False, True)},
    "qwen1.5-moe-a2.7b": {"qkv_bias": (True, False), "norm_topk_prob": (False, True), "decoder_sparse_step": (1, 2)},
    "deepseek-v3": {"num_nextn_predict_layers": (0, 1), "first_k_dense_replace": (3, 0), "moe_layer_freq": (1, 2),
                    "n_shared_experts": (1, 0), "attention_bias": (False, True)},
}  # fmt: skip
"""Source: the `configuration_*.py` files of github.com/huggingface/transformers, 4.57: (default, something else)."""
CASES = [(name, key, *values) for name, keys in LEFT_OUT.items() for key, values in keys.items()]


def config(name: str) -> dict[str, Any]:
    if name == "gpt_bigcode":
        return dict(BIGCODE)
    found: dict[str, Any] = json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def read(folder: Path, data: dict[str, Any]) -> Any:
    path = folder / "config.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return workload.model(path)


@pytest.mark.parametrize(("name", "key", "default", "other"), CASES)
def test_omitted_config_values_take_the_defaults_of_the_library(
    name: str, key: str, default: Any, other: Any, tmp_path: Path
) -> None:
    bare = {word: value for word, value in config(name).items() if word != key}
    found = repr(read(tmp_path, bare))
    assert repr(read(tmp_path, {**bare, key: default})) == found
    try:
        changed = repr(read(tmp_path, {**bare, key: other}))
    except BadInput:
        return
    assert changed != found


EPSILONS = {
    1e-5: "gpt2 gpt_bigcode gpt_neox mixtral nemotron olmo2 phi phi3 starcoder2",
    1e-6: "deepseek_v2 deepseek_v3 gemma gemma2 gemma3_text granite llama mistral qwen2 qwen2_moe qwen3 qwen3_moe",
}
SHARES = {0.25: "gpt_neox", 0.5: "nemotron phi"}
NUMBERS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps", "rope_theta",
           "rotary_emb_base", "partial_rotary_factor", "rotary_pct", "rope_scaling", "rope_parameters")  # fmt: skip


@pytest.mark.parametrize(
    "kind", sorted({json.loads(path.read_text())["model_type"] for path in CONFIGS.glob("*.json")} | {"gpt_bigcode"})
)
def test_omitted_epsilons_and_rope_bases_take_the_defaults_of_the_library(kind: str, tmp_path: Path) -> None:
    files = [config(path.stem) for path in sorted(CONFIGS.glob("*.json"))] + [BIGCODE]
    data = next(one for one in files if one["model_type"] == kind)
    found = read(tmp_path, {key: value for key, value in data.items() if key not in NUMBERS})
    known = {name: value for value, names in EPSILONS.items() for name in names.split()}
    assert found.norm_epsilon == known.get(kind)
    shares = {name: value for value, names in SHARES.items() for name in names.split()}
    assert found.rotary.share_frac == shares.get(kind, 1.0)
    assert found.rotary.base == (1e6 if kind == "mixtral" else 10_000.0)


@pytest.mark.parametrize(
    ("name", "key", "default"),
    [("llama3-405b", "factor", 1.0), ("llama3-405b", "low_freq_factor", 1.0), ("llama3-405b", "high_freq_factor", 4.0),
     ("deepseek-v3", "beta_fast", 32.0), ("deepseek-v3", "beta_slow", 1.0), ("deepseek-v3", "mscale", 1.0),
     ("deepseek-v3", "mscale_all_dim", 0.0), ("deepseek-v3", "factor", 1.0)],
)  # fmt: skip
def test_omitted_rope_scaling_values_take_the_defaults_of_the_library(
    name: str, key: str, default: float, tmp_path: Path
) -> None:
    data = config(name)
    for stretch in ({}, {key: default}, {key: default + 7}):
        others = {word: value for word, value in data["rope_scaling"].items() if word != key}
        found = read(tmp_path, {**data, "rope_scaling": others | stretch}).rotary
        assert getattr(found, key) == stretch.get(key, default)
