"""Accelerate's YAML is read whole: a kind and a range for every word, and one class for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.decide.planner.imports import Imported, read_run, recognised
from lockstep.describe.workload import model

SAMPLES = Path(__file__).parent / "imports_samples"
FSDP = "distributed_type: FSDP\nnum_processes: 16\nnum_machines: 2\nmixed_precision: bf16\nfsdp_config:\n"
BATCH = "# TrainingArguments: per_device_train_batch_size=2, gradient_accumulation_steps=4\n"
AXES = "  fsdp_version: 2\nparallelism_config:\n"


def read(text: str, accepted: tuple[str, ...] = ()) -> Imported:
    found = recognised(text, "acc.yaml", model("llama3-8b"), accepted)
    assert found is not None
    return found


def classes(found: Imported) -> dict[str, str]:
    return {row.word: row.kind for row in found.table}


@pytest.mark.parametrize(
    "wrong",
    [
        f"{FSDP}  fsdp_version: 3\n",
        f"{FSDP}  fsdp_version: 2.5\n",
        f"{FSDP}  fsdp_sharding_strategy: SOME_SHARD\n",
        f"{FSDP}  fsdp_offload_params: perhaps\n",
        f"{FSDP}  fsdp_offload_params: [true]\n",
        f"{FSDP}  fsdp_version: 2\n  fsdp_reshard_after_forward: FULL_SHARD\n",
        f"{FSDP}{AXES}  parallelism_config_tp_size: -8\n",
        f"{FSDP}{AXES}  parallelism_config_tp_size: 0\n",
        f"{FSDP}{AXES}  parallelism_config_tp_size: 2.7\n",
        f"{FSDP}{AXES}  parallelism_config_tp_size: .nan\n",
        f"{FSDP}{AXES}  parallelism_config_tp_size: 3\n",
        f"{FSDP}{AXES}  parallelism_config_cp_size: 4\n  parallelism_config_sp_size: 4\n",
        f"{FSDP}{AXES}  parallelism_config_cp_size: 2\n  parallelism_config_cp_comm_strategy: ring\n",
        f"{FSDP}  fsdp_version: 2\nfsdp_config: 3\n",
        "distributed_type: FSDP\nfsdp_config: [2]\n",
        "distributed_type: SOMETHING\n",
        "distributed_type: FSDP\nnum_processes: 10\nnum_machines: 4\n",
        "distributed_type: FSDP\nnum_processes: many\n",
        "distributed_type: FSDP\nmixed_precision: fp32\n",
        "compute_environment: LOCAL_MACHINE\nnum_processes: 8\n",
        "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 4\n",
        "distributed_type: DEEPSPEED\ndeepspeed_config:\n  offload_param_device: disk\n",
        "distributed_type: FSDP\nmachine_rank: [0]\n",
        "distributed_type: FSDP\ndistributed_type: NO\n",
    ],
)
def test_values_of_a_wrong_type_or_range_are_refused_at_their_line(wrong: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(wrong)
    assert caught.value.where is not None
    assert caught.value.where.startswith("acc.yaml")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("fsdp_offload_param: true", "fsdp_config.fsdp_offload_params"),
        ("fsdp_sharding_stratgy: NO_SHARD", "fsdp_config.fsdp_sharding_strategy"),
        ("fsdp_activation_checkpoint: true", "fsdp_config.fsdp_activation_checkpointing"),
    ],
)
def test_a_misspelled_setting_is_refused_with_a_suggestion(word: str, meant: str) -> None:
    with pytest.raises(BadInput, match=f"did you mean {meant}"):
        read(f"{FSDP}  {word}\n")
    name = f"fsdp_config.{word.partition(':')[0]}"
    assert classes(read(f"{FSDP}  {word}\n", (name,)))[name] == "unknown"


@pytest.mark.parametrize(
    ("strategy", "layout"),
    [
        ("FULL_SHARD", {"zero": 3}),
        ("full_shard", {"zero": 3}),
        ("1", {"zero": 3}),
        ("SHARD_GRAD_OP", {"zero": 2}),
        ("NO_SHARD", {"zero": 0}),
        ("3", {"zero": 0}),
        ("HYBRID_SHARD", {"zero": 3, "shard": 8}),
        ("HYBRID_SHARD_ZERO2", {"zero": 2, "shard": 8}),
    ],
)
def test_every_strategy_of_fsdp_1_is_a_stage(strategy: str, layout: dict[str, Any]) -> None:
    assert read(f"{FSDP}  fsdp_sharding_strategy: {strategy}\n").layout == layout
    assert read(f"{FSDP}  sharding_strategy: {strategy}\n").layout == layout


def test_fsdp_2_reads_one_sharding_setting_and_reports_the_other() -> None:
    found = read(
        f"{FSDP}  fsdp_version: '2'\n  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_reshard_after_forward: 'false'\n"
    )
    assert found.layout == {"zero": 2}
    assert classes(found)["fsdp_config.fsdp_sharding_strategy"] == "harmless"


def test_offloaded_parameters_kept_for_the_backward_pass_are_gathered_once() -> None:
    found = read(f"{FSDP}  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n  fsdp_offload_params: true\n")
    assert found.layout == {"zero": 3, "offload": "parameters"}
    assert found.words["reshard"] is False


def test_the_default_precision_of_accelerate_is_fp32() -> None:
    assert read("distributed_type: MULTI_GPU\nnum_processes: 8\n").words["dtype"] == "fp32"
    assert read("distributed_type: MULTI_GPU\nmixed_precision: 'no'\n").words["dtype"] == "fp32"
    assert read("distributed_type: MULTI_GPU\nmixed_precision: no\n").words["dtype"] == "fp32"


def test_multi_gpu_configurations_are_plain_ddp(tmp_path: Path) -> None:
    (file := tmp_path / "ddp.yaml").write_text("distributed_type: MULTI_GPU\nmixed_precision: bf16\n", encoding="utf-8")
    assert lockstep.estimate(f"llama3-8b@{file}", "dgx-b200:1", batch=64, seq=1024).layout.zero == 0


def test_sequences_split_by_deepspeed_are_context_parallelism_by_all_to_all() -> None:
    text = f"{FSDP}{AXES}  parallelism_config_sp_size: 4\n  parallelism_config_dp_shard_size: 4\n"
    found = read(text.replace("FSDP", "DEEPSPEED", 1))
    assert found.layout == {"cp": 4, "zero": 2}
    assert (found.words["cp_kind"], found.words["stack"]) == ("all-to-all", "deepspeed")


def test_comments_of_an_export_set_the_batch_and_are_parsed_quickly() -> None:
    found = read(BATCH + FSDP + "  fsdp_version: 2\n")
    assert found.layout["micro_batch"] == 2
    assert found.words["batch"](16) == 128
    read("# " + "LoraConfig(r=1 " * 60_000 + "\n" + FSDP + "  fsdp_version: 2\n")


def test_a_referenced_deepspeed_configuration_is_read(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(
        '{"zero_optimization": {"stage": 1}, "bf16": {"enabled": true}, "train_micro_batch_size_per_gpu": 2}',
        encoding="utf-8",
    )
    text = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"
    (file := tmp_path / "acc.yaml").write_text(text + "  zero_stage: 3\n", encoding="utf-8")
    found = read_run(file, model("llama3-8b"))
    assert found is not None
    assert (found.layout, found.words["dtype"]) == ({"zero": 1, "micro_batch": 2}, "bf16")
    named = "deepspeed_config.deepspeed_config_file"
    assert classes(found)[f"{named}.zero_optimization.stage"] == "read"
    assert classes(found)["deepspeed_config.zero_stage"] == "harmless"
    assert classes(read(text))[named] == "unknown"
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 2.5}}', encoding="utf-8")
    with pytest.raises(BadInput, match=r"ds\.json:1.*stage must be"):
        read_run(file, model("llama3-8b"))


@pytest.mark.parametrize(
    ("name", "words", "layout", "loud"),
    [
        ("zero3", {"stack": "deepspeed", "dtype": "fp16", "gpus": 8}, {"zero": 3}, set()),
        ("hsdp", {"dtype": "bf16", "gpus": 8, "reduce_bytes": 2}, {"tp": 2, "zero": 3, "shard": 2}, set()),
        ("offload", {"dtype": "bf16", "gpus": 16}, {"zero": 3, "offload": "parameters", "recompute": "full"},
         {"fsdp_config.fsdp_auto_wrap_policy"}),
        ("fp8", {"dtype": "fp8", "fp8_scaling": "delayed", "gpus": 2}, {"zero": 0}, set()),
    ],
)  # fmt: skip
def test_configurations_of_public_projects_are_read(
    name: str, words: dict[str, Any], layout: dict[str, Any], loud: set[str]
) -> None:
    found = read((SAMPLES / f"accelerate-{name}.yaml").read_text(encoding="utf-8"))
    assert found.words.items() >= words.items()
    assert found.layout == layout
    assert {row.word for row in found.table if row.kind in ("unknown", "contradictory")} == loud
