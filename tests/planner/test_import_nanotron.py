"""nanotron's YAML is read whole, and its `model_config` is the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.decide.planner.imports import Imported, recognised
from lockstep.describe.workload import Model, Transformer, model, parameters

SAMPLES = Path(__file__).parent / "imports_samples"
LLAMA = (SAMPLES / "nanotron-llama.yaml").read_text(encoding="utf-8")
EXPERTS = (SAMPLES / "nanotron-experts.yaml").read_text(encoding="utf-8")


def read(text: str, given: Model | None = None, accepted: tuple[str, ...] = ()) -> Imported:
    found = recognised(text, "nt.yaml", given, accepted)
    assert found is not None
    return found


def shaped(text: str) -> Transformer:
    found = read(text).model
    assert isinstance(found, Transformer)
    return found


def classes(found: Imported) -> dict[str, str]:
    return {row.word: row.kind for row in found.table}


def test_the_model_of_a_whole_file_is_that_of_the_catalog(tmp_path: Path) -> None:
    """Its sizes are those of Llama 3.2 with 3 billion parameters, in a file that names no model."""
    (file := tmp_path / "nt.yaml").write_text(LLAMA, encoding="utf-8")
    found = lockstep.estimate(file, "dgx-h100")
    assert parameters(found.job.model).total == parameters(model("llama3.2-3b")).total
    assert (found.job.devices, found.job.recipe.batch, found.job.recipe.seq, found.layout.tp) == (4, 16, 8192, 2)


def test_the_vocabulary_is_padded_for_the_ranks_that_share_it() -> None:
    assert shaped(LLAMA.replace("vocab_size: 128256", "vocab_size: 128001")).vocab == 128256
    assert shaped(LLAMA.replace("vocab_size: 128256", "vocab_size: 128001").replace("by: 128", "by: 1")).vocab == 128002
    with pytest.raises(BadInput, match="write its number of tokens"):
        read(LLAMA.replace("vocab_size: 128256", "vocab_size: -1"))


def test_biases_windows_and_experts_are_parts_of_the_model() -> None:
    assert not shaped(LLAMA).attention.qkv_bias
    qwen = LLAMA.replace("is_llama_config: true", "is_qwen2_config: true\n    attention_bias: true")
    assert shaped(qwen).attention.qkv_bias
    assert shaped(LLAMA.replace("use_cache: true", "sliding_window_size: 512")).attention.window == 512
    mixture = shaped(EXPERTS).experts
    assert mixture is not None
    assert (mixture.experts, mixture.top_k, mixture.ffn, mixture.shared_ffn) == (8, 1, 768, 768)
    some = shaped(EXPERTS.replace("top_k: 1", "top_k: 1\n      layers: [0, 5]"))
    assert some.experts is not None
    assert [some.experts.in_layer(layer) for layer in range(12)] == [layer in (0, 5) for layer in range(12)]
    alone = shaped(EXPERTS.replace("enable_shared_expert: true", "enable_shared_expert: false"))
    assert alone.experts is not None
    assert alone.experts.shared_ffn == 0


def test_a_model_named_beside_the_file_overrides_and_reports_the_files_model() -> None:
    given = model("llama3.2-3b")
    assert isinstance(given, Transformer)
    found = read(LLAMA, given)
    assert found.model == given
    assert classes(found)["model.model_config.hidden_size"] == "read"
    other = read(LLAMA, replace(given, layers=14))
    assert classes(other)["model.model_config.hidden_size"] == "contradictory"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("  dp: 2", "  dp: 0"),
        ("  dp: 2", "  dp: 2.5"),
        ("  dp: 2\n", ""),
        ("  tp_mode: ALL_REDUCE", "  tp_mode: SOMETIMES"),
        ("  pp_engine: 1f1b", "  pp_engine: gpipe"),
        ("  zero_stage: 0", "  zero_stage: 4"),
        ("  zero_stage: 0", "  zero_stage: [1]"),
        ("  micro_batch_size: 2", "  micro_batch_size: -2"),
        ("  micro_batch_size: 2\n", ""),
        ("  dtype: bfloat16", "  dtype: bf17"),
        ("    hidden_size: 3072", "    hidden_size: 3073"),
        ("    hidden_size: 3072", "    hidden_size: 1e400"),
        ("    num_hidden_layers: 28", "    num_hidden_layers: 28.5"),
        ("    hidden_act: silu", "    hidden_act: wave"),
        ("  log_level: info", "  log_level: loud"),
        ("  zero_stage: 0", "  zero_stage: 0\n  zero_stage: 1"),
    ],
)
def test_values_of_a_wrong_type_or_range_are_refused_at_their_line(before: str, after: str) -> None:
    assert before in LLAMA
    with pytest.raises(BadInput) as caught:
        read(LLAMA.replace(before, after, 1))
    assert caught.value.where is not None
    assert caught.value.where.startswith("nt.yaml")


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("micro_batch_size", "micro_batch_sise"),
        ("num_key_value_heads", "num_key_values_heads"),
        ("recompute_layer", "recompute_layers"),
    ],
)
def test_a_misspelled_setting_is_refused_with_a_suggestion(word: str, other: str) -> None:
    text = EXPERTS.replace(f"{word}:", f"{other}:", 1)
    with pytest.raises(BadInput, match=rf"did you mean [\w.]*{word}"):
        read(text)


@pytest.mark.parametrize(
    ("name", "words", "layout", "loud"),
    [
        ("smollm", {"batch": 512, "gpus": 64, "seq": 2048, "dtype": "bf16"}, {"zero": 0, "micro_batch": 8}, set()),
        ("llama", {"batch": 16, "gpus": 4, "seq": 8192, "dtype": "bf16", "overlap_tp": "none"},
         {"tp": 2, "zero": 0, "micro_batch": 2}, set()),
        ("experts", {"batch": 6, "gpus": 2, "seq": 4096, "dtype": "bf16"}, {"zero": 0, "micro_batch": 3},
         {"_fused_rms_norm", "_fused_rotary_emb", "_use_doc_masking", "_use_qkv_packed"}),
    ],
)  # fmt: skip
def test_configurations_of_public_projects_are_read(
    name: str, words: dict[str, Any], layout: dict[str, Any], loud: set[str]
) -> None:
    found = read((SAMPLES / f"nanotron-{name}.yaml").read_text(encoding="utf-8"))
    assert found.words.items() >= words.items()
    assert found.layout == layout
    left = {row.word for row in found.table if row.kind in ("unknown", "contradictory")}
    assert left == {f"model.model_config.{one}" for one in loud}
