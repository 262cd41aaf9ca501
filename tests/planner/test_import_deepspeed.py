"""DeepSpeed's JSON is read whole: a kind and a range for every word, and one class for each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.decide.planner.from_file import CLASSES
from lockstep.decide.planner.imports import Imported, recognised
from lockstep.describe.workload import model

SAMPLES = Path(__file__).parent / "imports_samples"
SMALL: dict[str, Any] = {
    "train_batch_size": 64,
    "zero_optimization": {"stage": 1},
    "bf16": {"enabled": True},
}


def read(data: dict[str, Any], accepted: tuple[str, ...] = ()) -> Imported:
    found = recognised(json.dumps(data, indent=1), "ds.json", model("llama3-8b"), accepted)
    assert found is not None
    return found


def classes(found: Imported) -> dict[str, str]:
    return {row.word: row.kind for row in found.table}


@pytest.mark.parametrize(
    "changed",
    [
        {"zero_optimization": [3]},
        {"zero_optimization": 3},
        {"zero_optimization": {"stage": 2.5}},
        {"zero_optimization": {"stage": 4}},
        {"zero_optimization": {"stage": True}},
        {"zero_optimization": {"stage": "auto"}},
        {"zero_optimization": {"stage": 1, "overlap_comm": "perhaps"}},
        {"zero_optimization": {"stage": 3, "stage3_max_live_parameters": -1}},
        {"zero_optimization": {"stage": 3, "offload_param": {"device": "disk"}}},
        {"zero_optimization": {"stage": 1, "offload_optimizer": "cpu"}},
        {"train_micro_batch_size_per_gpu": 2.7},
        {"train_micro_batch_size_per_gpu": 0},
        {"train_batch_size": "many"},
        {"train_batch_size": [64]},
        {"train_batch_size": True},
        {"gradient_accumulation_steps": -8},
        {"train_batch_size": 10, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2},
        {"bf16": {"enabled": True}, "fp16": {"enabled": True}},
        {"bf16": {"enabled": 7.5}},
        {"bf16": True},
        {"tensor_parallel": {"autotp_size": -3}},
        {"pipeline": {"stages": 1e30}},
        {"steps_per_print": {"every": 3}},
        {"gradient_clipping": "some"},
        {"wall_clock_breakdown": [True]},
    ],
)
def test_values_of_a_wrong_type_or_range_are_refused_at_their_line(changed: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as caught:
        read({**SMALL, **changed})
    assert caught.value.where is not None
    assert caught.value.where.startswith("ds.json:")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("train_micro_batch_size_per_gpus", "train_micro_batch_size_per_gpu"),
        ("gradient_acumulation_steps", "gradient_accumulation_steps"),
        ("zero_optimisation.stage", "zero_optimization.stage"),
        ("zero_optimization.offload_optimiser.device", "zero_optimization.offload_optimizer.device"),
    ],
)
def test_a_misspelled_setting_is_refused_with_a_suggestion(word: str, meant: str) -> None:
    data: dict[str, Any] = json.loads(json.dumps(SMALL))
    inner = data
    *sections, last = word.split(".")
    for section in sections:
        inner = inner.setdefault(section, {})
    inner[last] = "cpu" if last == "device" else 1
    with pytest.raises(BadInput, match=f"did you mean {meant}"):
        read(data)
    assert classes(read(data, (word,)))[word] == "unknown"


def test_settings_have_one_class_and_switches_may_be_text() -> None:
    found = read(
        {
            **SMALL,
            "bf16": {"enabled": "no"},
            "wandb": {"enabled": True},
            "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10}},
            "zero_optimization": {"stage": 1, "zero_quantized_gradients": True, "stage3_max_live_parameters": 5},
            "a_note": "x",
        }
    )
    assert classes(found) == {
        "train_batch_size": "read", "zero_optimization.stage": "read", "bf16.enabled": "read",
        "zero_optimization.zero_quantized_gradients": "unknown", "wandb.enabled": "harmless",
        "zero_optimization.stage3_max_live_parameters": "harmless", "scheduler.type": "yours",
        "scheduler.params.warmup_num_steps": "yours", "a_note": "unknown",
    }  # fmt: skip
    assert found.words["dtype"] == "fp32"


def test_harmless_settings_accept_numbers() -> None:
    assert classes(read({**SMALL, "log_level": 3}))["log_level"] == "harmless"
    with pytest.raises(BadInput, match="log_level must be text"):
        read({**SMALL, "log_level": True})


def test_a_repeated_key_is_refused() -> None:
    text = '{"train_batch_size": 8,\n "train_batch_size": 16, "zero_optimization": {"stage": 1}}'
    with pytest.raises(BadInput, match="given twice"):
        recognised(text, "ds.json", model("llama3-8b"))


@pytest.mark.parametrize("text", ['{"zero_optimization": ' + "[" * 400_000, '{"train_batch_size": 1e400}'])
def test_excessive_depth_and_numbers_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        recognised(text, "ds.json", model("llama3-8b"))


def test_thousands_of_unknown_settings_give_one_refusal() -> None:
    with pytest.raises(BadInput, match="19,999 other settings"):
        read({**SMALL, **{f"setting_{number}": 1 for number in range(20_000)}})


@pytest.mark.parametrize(
    ("name", "words", "layout", "loud"),
    [
        ("zero3-offload", {"dtype": "bf16", "overlap": False}, {"zero": 3, "offload": "optimizer"}, set()),
        ("autotp", {"dtype": "bf16", "overlap": False}, {"tp": 2, "zero": 2}, set()),
        ("pretraining", {"batch": 256, "dtype": "fp16", "optimizer": "adam"}, {"zero": 1, "micro_batch": 4}, set()),
        ("one-bit", {"batch": 4096, "dtype": "fp16"}, {"micro_batch": 16}, {"optimizer.type"}),
    ],
)
def test_configurations_of_public_projects_are_read(
    name: str, words: dict[str, Any], layout: dict[str, Any], loud: set[str]
) -> None:
    """What an engineer reads in them; the first two are left to a Trainer in part."""
    found = recognised((SAMPLES / f"deepspeed-{name}.json").read_text(encoding="utf-8"), "ds.json", model("llama3-8b"))
    assert found is not None
    assert found.words.items() >= words.items()
    assert found.layout == layout
    assert {row.word for row in found.table if row.kind in ("unknown", "contradictory")} == loud
    assert {row.kind for row in found.table} <= set(CLASSES)


def test_an_answer_contains_the_import_table_and_accepts_unknown_settings_by_name(tmp_path: Path) -> None:
    file = tmp_path / "ds.json"
    file.write_text(json.dumps({**SMALL, "zero_optimization": {"stage": 1, "stage3_max_reuse": 1}}), encoding="utf-8")
    asked = f"llama3-8b@{file}"
    with pytest.raises(BadInput, match="--accept-unknown"):
        lockstep.estimate(asked, "dgx-h100:1", seq=2048)
    found = lockstep.estimate(asked, "dgx-h100:1", seq=2048, accept_unknown="zero_optimization.stage3_*").to_dict()
    assert {row["word"]: row["class"] for row in found["imported"]}["zero_optimization.stage3_max_reuse"] == "unknown"
    assert [row["as"] for row in found["imported"] if row["word"] == "train_batch_size"] == ["batch"]
    assert found["imported_from"]["recognised_by"] == "zero_optimization"
    assert "imported" not in lockstep.estimate("llama3-8b", "dgx-h100:1", batch=64, zero=1).to_dict()
    with pytest.raises(BadInput, match="--accept-unknown: belongs to a configuration"):
        lockstep.estimate("llama3-8b", "dgx-h100:1", batch=64, zero=1, accept_unknown="x")
