"""Files of fine-tuning software as its users write them: other spellings, programs that tell the method, old words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lockstep.base.errors import BadInput
from lockstep.decide.planner.imports import Imported, read_run, recognised
from lockstep.decide.planner.imports.named import catalogued
from lockstep.decide.planner.imports.script import commands
from lockstep.decide.planner.imports.text import Unset
from lockstep.describe.workload import model

AXOLOTL = "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\nmicro_batch_size: 1\n"
TRL = "--model_name_or_path Qwen/Qwen2.5-7B-Instruct --dataset_name a/b --per_device_train_batch_size 4"
SWIFT = "--model Qwen/Qwen2.5-7B --train_type full --per_device_train_batch_size 1 --max_length 2048"
MEGATRON = (
    "NPROC_PER_NODE=8 megatron sft --tuner_type full --micro_batch_size 1 --global_batch_size 8 --max_length 2048"
)


def read(text: str, name: str = "run.sh", before: str | None = "llama3-8b") -> Imported:
    found = recognised(text, name, None if before is None else model(before))
    assert found is not None
    return found


def rows(found: Imported) -> dict[str, str]:
    return {row.word: row.kind for row in found.table}


def deepspeed(**zero: Any) -> Imported:
    return read(json.dumps({"train_micro_batch_size_per_gpu": 1, "zero_optimization": zero}, indent=1), "ds.json")


@pytest.mark.parametrize(
    "name", ["max_live_parameters", "max_reuse_distance", "prefetch_bucket_size", "param_persistence_threshold"]
)
def test_stage_3_fields_are_read_with_and_without_prefix(name: str) -> None:
    short, full = deepspeed(stage=3, **{name: 12345}), deepspeed(stage=3, **{f"stage3_{name}": 12345})
    assert short.words["gather_limits"] == full.words["gather_limits"] == f"{name}=12345"
    assert rows(short) == rows(full)


def test_a_stage_3_field_with_both_spellings_is_refused() -> None:
    with pytest.raises(BadInput, match="max_live_parameters"):
        deepspeed(stage=3, max_live_parameters=1, stage3_max_live_parameters=2)


def test_parameters_are_offloaded_with_stage_3_only() -> None:
    below = deepspeed(stage=2, offload_param={"device": "cpu"}, offload_optimizer={"device": "cpu"})
    assert below.layout["offload"] == "optimizer"
    assert rows(below)["zero_optimization.offload_param.device"] == "harmless"
    assert deepspeed(stage=3, offload_param={"device": "cpu"}).layout["offload"] == "parameters"
    text = "distributed_type: DEEPSPEED\nmixed_precision: bf16\ndeepspeed_config:\n  zero_stage: {}\n"
    text += "  offload_optimizer_device: cpu\n  offload_param_device: cpu\n"
    assert [read(text.format(stage), "a.yaml").layout["offload"] for stage in (2, 3)] == ["optimizer", "parameters"]


@pytest.mark.parametrize(
    ("section", "word"),
    [
        ("qat:\n  activation_dtype: int8\n  group_size: 32\n", "qat.group_size"),
        ("device_map:\n  '': 0\n", "device_map."),
        ("rope_scaling:\n  rope_type: yarn\n  factor: 2.0\n", "rope_scaling.factor"),
    ],
)
def test_unknown_sections_are_omitted_as_a_whole(section: str, word: str) -> None:
    assert rows(read(AXOLOTL + section, "a.yaml")).get(word) in ("unknown", "harmless")
    with pytest.raises(BadInput, match="qat_dtype"):
        read(AXOLOTL + "qat_dtype: int8\n", "a.yaml")


def test_digits_may_be_grouped_in_thousands() -> None:
    assert read(AXOLOTL.replace("2048", "500_000"), "a.yaml").words["seq"] == 500_000
    with pytest.raises(BadInput, match="sequence_len must be a whole number"):
        read(AXOLOTL.replace("2048", "5_0"), "a.yaml")


def test_repeated_keys_are_allowed_with_equal_values_only(tmp_path: Path) -> None:
    (same := tmp_path / "same.yaml").write_text(f"{AXOLOTL}bf16: true\nbf16: true\n", encoding="utf-8")
    found = read_run(same)
    assert found is not None
    assert rows(found)["bf16"] == "read"
    for second in ("bf16: false", "bf16: 1", "bf16: [true]"):
        with pytest.raises(BadInput, match="'bf16' is given twice"):
            read(f"{AXOLOTL}bf16: true\n{second}\n", "a.yaml")


def test_settings_shared_with_other_software_do_not_make_a_file_ambiguous() -> None:
    with pytest.raises(BadInput, match="train_batch_size is not a setting of axolotl"):
        read(f"{AXOLOTL}train_batch_size: 8\n", "a.yaml")
    assert read('{"train_batch_size": 8, "optimizer": {"type": "Adam"}}', "d.json").software == "DeepSpeed's JSON"


def test_a_custom_training_script_is_not_read_as_axolotl() -> None:
    text = "torchrun train.py --model_name_or_path a/b --per_device_train_batch_size 1 --num_epochs 3 --bf16"
    with pytest.raises(BadInput, match="num_epochs is not a setting of transformers"):
        read(text)


@pytest.mark.parametrize(
    ("command", "trained"),
    [
        ("trl sft", None),
        ("trl dpo", "dpo"),
        ("trl grpo", "grpo:beta=0"),
        ("trl kto", "kto"),
        ("trl reward", "reward"),
        ("trl rloo", "rloo:beta=0.05"),
        ("accelerate launch examples/scripts/dpo.py", "dpo"),
        ("accelerate launch scripts/run_orpo.py --beta 0.1", "dpo:reference=none"),
        ("python examples/scripts/cpo.py --loss_type simpo", "dpo:reference=none"),
        ("python trl/scripts/grpo.py --beta 0.04", "grpo:beta=0.04"),
        ("python train.py --beta 0.1", "dpo"),
        ("python dporous.py", None),
    ],
)
def test_the_method_of_a_command_is_that_of_its_program(command: str, trained: str | None) -> None:
    program, _, options = command.partition(" --")
    found = read(f"{program} {TRL} " + (f"--{options}" if options else ""), before=None)
    assert found.words.get("train") == trained


def test_unsupported_training_methods_are_reported() -> None:
    assert rows(read(f"python examples/scripts/gkd.py {TRL}"))["launcher.program"] == "unknown"


def test_swift_rlhf_defaults_to_dpo() -> None:
    assert read(f"swift rlhf {SWIFT}", before=None).words["train"] == "dpo"
    assert "train" not in read(f"swift sft {SWIFT}", before=None).words


def test_swift_experts_are_replicated_by_default() -> None:
    text = f"{MEGATRON} --model Qwen/Qwen3-30B-A3B --tensor_model_parallel_size 4 --expert_model_parallel_size "
    assert read(f"{text}4", before=None).layout["etp"] == 1
    assert read(f"{text}1", before=None).layout["etp"] == 1
    assert "etp" not in read(f"{text}2 --expert_tensor_parallel_size 4", before=None).layout
    dense = read(f"{MEGATRON} --model Qwen/Qwen3-8B --tensor_model_parallel_size 4", before=None)
    assert "etp" not in dense.layout


def test_megatron_fsdp_shards_parameters_by_default() -> None:
    found = read(f"{MEGATRON} --model Qwen/Qwen3-8B --use_megatron_fsdp true", before=None)
    assert found.layout["zero"](8) == 3


@pytest.mark.parametrize(
    ("options", "chunks"),
    [("--num_layers_per_virtual_pipeline_stage 4", 2), ("--num_virtual_stages_per_pipeline_rank 3", 3)],
)
def test_swift_chunks_are_read_from_earlier_option_names(options: str, chunks: int) -> None:
    text = f"{MEGATRON} --model Qwen/Qwen3-32B --pipeline_model_parallel_size 8 {options}"
    assert read(text, before=None).layout["vpp"] == chunks
    with pytest.raises(BadInput, match="which 64 layers do not fill"):
        read(f"{MEGATRON} --model Qwen/Qwen3-32B --pipeline_model_parallel_size 8 "
             "--num_layers_per_virtual_pipeline_stage 5", before=None)  # fmt: skip


@pytest.mark.parametrize(
    ("named", "shape", "base"),
    [
        ("unsloth/Qwen3-8B-bnb-4bit", "qwen3-8b", "nf4"),
        ("Some/Meta-Llama-3-8B-Instruct-GPTQ", "llama3-8b", "gptq"),
        ("Some/Meta-Llama-3-8B-Instruct-AWQ", "llama3-8b", "gptq"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama3-8b", None),
    ],
)
def test_a_quantised_checkpoint_is_frozen_in_its_format(named: str, shape: str, base: str | None) -> None:
    text = f"model_name_or_path: {named}\nstage: sft\nfinetuning_type: lora\ncutoff_len: 1024\nbf16: true\n"
    found = read(text, "l.yaml", None)
    assert (found.model, found.words.get("base")) == (shape, base)
    assert read(text, "l.yaml", "llama3.1-8b").words.get("base") == base


@pytest.mark.parametrize(
    ("hub_id", "name"),
    [
        ("Qwen/Qwen2.5-Coder-32B-Instruct", "qwen2.5-32b"),
        ("Qwen/Qwen2.5-Math-7B", "qwen2.5-7b"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"),
        ("Qwen/Qwen3-235B-A22B-Thinking-2507-FP8", "qwen3-235b-a22b"),
        ("mistralai/Mistral-7B-v0.3", None),
        ("Qwen/Qwen2.5-VL-7B-Instruct", None),
    ],
)
def test_hub_models_of_a_known_shape_are_found_and_others_are_not(hub_id: str, name: str | None) -> None:
    assert catalogued(hub_id) == name


def test_a_model_left_open_by_a_script_may_be_named_beside_it() -> None:
    text = "torchrun train.py --model_name_or_path $1 --per_device_train_batch_size 2 --model_max_length 512 --bf16"
    found = read(text)
    assert (found.words["seq"], rows(found)["model_name_or_path"]) == (512, "yours")
    with pytest.raises(BadInput, match="write its value, or give MODEL@FILE"):
        read(text, before=None)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("$(expr 16 / $n)", "8"),
        ("`expr 3 \\* $n + 1`", "7"),
        ("$(expr $unset / 2)", None),
        ("$(expr length $n)", None),
    ],
)
def test_expr_arithmetic_is_evaluated(written: str, value: str | None) -> None:
    (found,) = commands(f"n=2\ntrain.py --steps {written}\n", "run.sh")
    said = found.words["steps"]
    assert (str(said), isinstance(said, Unset)) == ((written, True) if value is None else (value, False))


def test_unset_variables_affect_only_their_own_words() -> None:
    text = 'A="--steps 4"\nif [ "$OPEN" = 1 ]; then\nA="--steps 8"\nfi\nCMD="`pwd`/train.py --name $NAME --size 2 $A"\n'
    (found,) = commands(f'{text}eval "$CMD"\n', "run.sh")
    assert found.words["launcher.program"] == "./train.py"
    assert (found.words["size"], isinstance(found.words["name"], Unset)) == ("2", True)
    assert set(found.branched) == {"steps"}


def test_a_configuration_passed_to_a_python_script_is_read(tmp_path: Path) -> None:
    (tmp_path / "sft.yaml").write_text(
        "model_name_or_path: meta-llama/Meta-Llama-3-8B\nfinetuning_type: lora\ncutoff_len: 1024\n", encoding="utf-8"
    )
    (script := tmp_path / "run.sh").write_text("accelerate launch --num_processes 2 src/train.py x/sft.yaml\n", "utf-8")
    found = read_run(script)
    assert found is not None
    assert (found.words["seq"], found.words["gpus"]) == (1024, 2)
    script.write_text("python src/train.py x/gone.yaml\n", encoding="utf-8")
    assert read_run(script) is None
    with pytest.raises(
        BadInput, match="is neither a script, configuration or log of known training software nor a model file"
    ):
        model(str(script))


def test_llama_factory_on_megatron_core_splits_the_model() -> None:
    text = (
        "model_name_or_path: Qwen/Qwen3-30B-A3B\nstage: sft\nfinetuning_type: full\ncutoff_len: 4096\nbf16: true\n"
        "per_device_train_batch_size: 1\ngradient_accumulation_steps: 8\npipeline_model_parallel_size: 4\n"
        "expert_model_parallel_size: 2\nuse_distributed_optimizer: true\noverlap_grad_reduce: true\n"
        "recompute_granularity: full\napply_rope_fusion: true\n"
    )
    found = read(text, "l.yaml", None)
    assert (found.words["stack"], found.words["batch"](8)) == ("megatron-te", 16)
    assert {name: found.layout.get(name) for name in ("tp", "pp", "ep", "recompute")} == {
        "tp": None, "pp": 4, "ep": 2, "recompute": "full"
    }  # fmt: skip
    assert found.layout["zero"](8) == 1
    assert "overlap" not in found.words


@pytest.mark.parametrize(
    ("program", "options", "words"),
    [
        ("train_lora.py", "", {"train": "lora:r=8,targets=q_proj+v_proj,dropout=0.05"}),
        ("finetune.py", "--use_lora", {"train": "lora:r=64,targets=all-linear,dropout=0.05"}),
        ("finetune.py", "--use_lora --q_lora", {"train": "lora:r=64,targets=all-linear,dropout=0.05", "base": "nf4"}),
        (
            "train.py",
            "--lora_enable True --bits 8",
            {"train": "lora:r=64,targets=all-linear,dropout=0.05", "base": "int8"},
        ),
        ("train.py", "--lora_enable False --lora_r 8", {}),
    ],
)
def test_adapter_options_of_custom_scripts_are_read(program: str, options: str, words: dict[str, str]) -> None:
    text = f"torchrun {program} --model_name_or_path a/llama-2-7b --per_device_train_batch_size 1 --bf16 {options}"
    found = read(text, before=None)
    assert {name: found.words[name] for name in ("train", "base") if name in found.words} == words
    stored = read(text.replace("a/llama-2-7b", "Some/Llama-2-7b-Int4") + " --use_lora --q_lora", before=None)
    assert stored.words["base"] == "gptq"
    with pytest.raises(BadInput, match="needs adapters"):
        read("torchrun finetune.py --model_name_or_path a/b --per_device_train_batch_size 1 --q_lora")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("scale_rewards: false\nnum_generations: 4\n", "t.yaml"),
        ("lora_alpha: 16.0\nuse_peft: true\n", "t.yaml"),
        ("code_language: cpp\ndataset_prompt_column: prompt\n", "t.yaml"),
        ("teacher_model_name_or_path: a/b\nlmbda: 0.5\n", "t.yaml"),
    ],
)
def test_settings_of_parent_classes_are_recognised(text: str, name: str) -> None:
    head = "model_name_or_path: Qwen/Qwen2.5-7B\ndataset_name: a/b\nbf16: true\n"
    assert read(head + text, name, None).software == "TRL's configuration"
