"""Configurations of axolotl, LLaMA-Factory, TRL, the Trainer and ms-swift are read as their software takes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.decide.planner.from_file import CLASSES, LOUD
from lockstep.decide.planner.imports import Imported, read_run, recognised
from lockstep.decide.planner.imports.tuning.adapters import tables
from lockstep.describe.workload import model, read_training
from lockstep.describe.workload.adapter_words import read_adapters


def auto_limits(width: int) -> str:
    """What transformers makes of "auto" in a DeepSpeed configuration, by the width of the model."""
    return (
        f"prefetch_bucket_size={int(0.9 * width**2)},param_persistence_threshold={10 * width},"
        f"reduce_bucket_size={width**2}"
    )


SAMPLES = Path(__file__).parent / "imports_samples"
DEVICES = 8
FLASH = {"attention_kernel": "flash2"}
HF, HF5 = {"stack": "hf-trainer"}, {"stack": "hf-trainer-5"}
UNREAD = {"stack": "deepspeed"}
DS = {**UNREAD, "gradient_bytes": 2}
FULL = {"recompute": "full"}
MEGATRON = {"stack": "megatron-te", "dtype": "bf16", "optimizer": "adamw", "cross_entropy": "fused", "overlap": False}
EVERY = "targets=all-linear"
EXPECTED: dict[str, tuple[str | None, dict[str, Any], dict[str, Any], set[str]]] = {
    "axolotl-lora-8b.yml": (
        "llama3-8b",
        {**HF, **FLASH, "batch": 64, "seq": 4096, "dtype": "bf16", "base": "int8", "optimizer": "adamw-8bit",
         "train": f"lora:r=32,{EVERY},dropout=0.05,save=embed_tokens+lm_head"},
        {"micro_batch": 2, **FULL}, set(),
    ),
    "axolotl-qlora-fsdp-70b.yaml": (
        "llama3-70b",
        {**HF, **FLASH, "batch": 32, "seq": 512, "dtype": "bf16", "base": "nf4", "optimizer": "adamw",
         "train": f"lora:r=8,{EVERY},dropout=0.05", "reduce_bytes": 2},
        {"micro_batch": 1, "zero": 3, "offload": "parameters", **FULL}, set(),
    ),
    "axolotl-full-8b.yaml": (
        "llama3-8b",
        {**HF, **FLASH, "batch": 64, "seq": 8192, "dtype": "bf16", "optimizer": "adamw-8bit-no-master",
         "gradient_bytes": 2},
        {"micro_batch": 1, "offload": "paged", **FULL}, set(),
    ),
    "axolotl-dpo-lora-8b.yml": (
        "llama3-8b",
        {**HF, **FLASH, "batch": 128, "seq": 4096, "dtype": "bf16", "base": "int8", "optimizer": "adamw-8bit",
         "train": f"dpo,lora:r=32,{EVERY},dropout=0.05"},
        {"micro_batch": 4, **FULL}, set(),
    ),
    "axolotl-qlora-32b.yaml": (
        "qwen3-32b",
        {**HF, **FLASH, "batch": 16, "seq": 2048, "dtype": "bf16", "base": "nf4",
         "optimizer": "adamw-4bit-torchao:block=256",
         "train": "lora:r=16,targets=q_proj+k_proj+v_proj+o_proj+down_proj+up_proj", "cross_entropy": "chunked",
         "offload_layers": "all"},
        {"micro_batch": 1, **FULL}, {"lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel"},
    ),
    "llamafactory-qlora-sft.yaml": (
        "llama3-8b",
        {**HF, "batch": 64, "seq": 2048, "dtype": "bf16", "base": "nf4", "optimizer": "adamw",
         "train": f"lora:r=8,{EVERY}"},
        {"micro_batch": 1, **FULL}, set(),
    ),
    "llamafactory-full-sft.yaml": (
        "llama3-8b",
        {**DS, "batch": 16, "seq": 2048, "dtype": "bf16", "optimizer": "adamw", "overlap": False,
         "gather_limits": auto_limits(4096)},
        {"micro_batch": 1, "zero": 3, **FULL}, set(),
    ),
    "llamafactory-lora-dpo.yaml": (
        "llama3-8b",
        {**HF, "batch": 128, "seq": 2048, "dtype": "bf16", "optimizer": "adamw", "train": f"dpo,lora:r=8,{EVERY}"},
        {"micro_batch": 2, **FULL}, set(),
    ),
    "llamafactory-galore.yaml": (
        "llama3-8b",
        {**HF, "batch": 8, "seq": 1024, "dtype": "bf16", "optimizer": "galore-bf16:r=128",
         "gradient_bytes": 2},
        {"micro_batch": 1, **FULL}, set(),
    ),
    "llamafactory-lora-ppo.json": (
        "llama3-8b",
        {**HF, "batch": 64, "seq": 2560, "dtype": "bf16", "optimizer": "adamw",
         "train": "ppo,lora:r=8,targets=q_proj+v_proj"},
        {"micro_batch": 1, **FULL}, set(),
    ),
    "llamafactory-command.sh": (
        "llama2-7b",
        {**DS, "batch": 128, "seq": 2048, "dtype": "fp16", "base": "int8", "optimizer": "adamw", "gpus": 4,
         "train": "lora:r=8,targets=q_proj+v_proj", "overlap": False},
        {"micro_batch": 4, "zero": 2, **FULL}, {"lora_target"},
    ),
    "trainer-lora-chat.sh": (
        "llama2-70b",
        {**HF, **FLASH, "batch": 128, "seq": 1024, "dtype": "bf16", "base": "nf4", "optimizer": "adamw",
         "train": "lora:r=64,targets=q_proj+v_proj,dropout=0.05"},
        {"micro_batch": 2, **FULL}, set(),
    ),
    "trainer-lora-images.sh": (
        None,
        {**UNREAD, "batch": 256, "seq": 2048, "dtype": "bf16", "optimizer": "adamw",
         "train": f"lora:r=128,{EVERY},dropout=0.05"},
        {"micro_batch": 16, **FULL}, {"vision_tower", "deepspeed"},
    ),
    "trainer-lora-switch.sh": (
        "llama2-7b",
        {**HF, "gpus": 8, "batch": 128, "seq": 512, "dtype": "bf16", "optimizer": "adamw",
         "train": f"lora:r=64,{EVERY},dropout=0.05"},
        {"micro_batch": 2, **FULL}, {"use_lora"},
    ),
    "trl-sft-full.yaml": (
        "qwen2.5-7b",
        {**HF, **FLASH, "batch": 128, "seq": 32768, "dtype": "bf16", "optimizer": "adamw-bf16", "gradient_bytes": 2,
         "cross_entropy": "chunked"},
        {"micro_batch": 2, **FULL}, set(),
    ),
    "trl-sft-qlora.yaml": (
        "mistral-7b",
        {"stack": "trl", **FLASH, "batch": 64, "seq": 2048, "dtype": "bf16", "base": "nf4-single", "optimizer": "adamw",
         "train": "lora:r=16,targets=attention+mlp,dropout=0.05"},
        {"micro_batch": 4, **FULL}, set(),
    ),
    "trl-dpo-full.yaml": (
        None,
        {"stack": "trl", "batch": 256, "seq": 1024, "dtype": "bf16", "optimizer": "adamw", "train": "dpo"},
        {"micro_batch": 16, **FULL}, set(),
    ),
    "trl-grpo.yaml": (
        "qwen2.5-1.5b",
        {**HF, **FLASH, "batch": 2048, "seq": 1536, "dtype": "bf16", "optimizer": "adamw-bf16", "gradient_bytes": 2,
         "train": "grpo:beta=0,old=always", "gpus": 7, "cross_entropy": "tiled"},
        {"micro_batch": 16, **FULL}, {"use_vllm", "vllm_gpu_memory_utilization"},
    ),
    "trl-sft-lora.sh": (
        "qwen2.5-0.5b",
        {"stack": "trl", "batch": 128, "seq": 1024, "dtype": "bf16", "optimizer": "adamw", "gpus": 2,
         "parameter_bytes": 4, "train": "lora:r=32,targets=q_proj+v_proj,dropout=0.05"},
        {"micro_batch": 2, **FULL}, set(),
    ),
    "trainer-full.json": (
        None, {**HF, "batch": 256, "dtype": "bf16", "optimizer": "adamw", "reduce_bytes": 2},
        {"micro_batch": 4, "zero": 3}, set(),
    ),
    "trainer-deepspeed.yaml": (
        None, {**DS, "batch": 256, "dtype": "fp16", "optimizer": "adamw"},
        {"micro_batch": 8, "zero": 2, "offload": "optimizer", **FULL}, set(),
    ),
    "trainer-single.yaml": (
        None, {**HF5, "batch": 256, "dtype": "fp16", "optimizer": "adafactor"}, {"micro_batch": 16, **FULL}, set(),
    ),
    "trainer-parallel.json": (
        None,
        {**HF, "batch": 8, "dtype": "bf16", "optimizer": "adamw", "reduce_bytes": 2, "cross_entropy": "chunked",
         "cp_kind": "gather"},
        {"micro_batch": 1, "zero": 3, "tp": 2, "cp": 2, **FULL}, {"torch_compile"},
    ),
    "trainer-fsdp.sh": (
        "llama2-7b",
        {**HF, "batch": 256, "seq": 512, "dtype": "bf16", "optimizer": "adamw", "reduce_bytes": 2, "gpus": 4},
        {"micro_batch": 4, "zero": 3}, set(),
    ),
    "swift-qlora.sh": (
        "qwen2.5-7b",
        {**HF, "batch": 128, "seq": 2048, "dtype": "bf16", "base": "nf4", "optimizer": "adamw",
         "train": f"lora:r=8,{EVERY},dropout=0.05"},
        {"micro_batch": 1, **FULL}, set(),
    ),
    "swift-full-zero3.sh": (
        "qwen2.5-32b",
        {**DS, **FLASH, "batch": 16, "seq": 8192, "dtype": "bf16", "optimizer": "adamw", "overlap": False, "gpus": 8,
         "gather_limits": auto_limits(5120),
         "cross_entropy": "chunked"},
        {"micro_batch": 1, "zero": 3, **FULL}, set(),
    ),
    "swift-dpo-lora.sh": (
        "qwen2.5-7b",
        {**HF, "batch": 256, "seq": 2048, "dtype": "bf16", "optimizer": "adamw",
         "train": f"dpo,lora:r=8,{EVERY},dropout=0.05"},
        {"micro_batch": 2, **FULL}, set(),
    ),
    "swift-grpo-qlora.sh": (
        "qwen2.5-3b",
        {**DS, "batch": 128, "seq": 10240, "dtype": "bf16", "base": "nf4", "optimizer": "adamw", "overlap": False,
         "gpus": 4, "train": f"grpo,lora:r=8,{EVERY},dropout=0.05"},
        {"micro_batch": 4, "zero": 2, **FULL},
        {"use_vllm", "vllm_mode", "vllm_gpu_memory_utilization", "sleep_level"},
    ),
    "swift-megatron-full.sh": (
        "qwen3-32b",
        {**MEGATRON, "batch": 16, "seq": 8192, "gpus": 8},
        {"tp": 8, "sequence_parallel": True, "micro_batch": 1, "zero": None, **FULL}, set(),
    ),
    "swift-megatron-lora-moe.sh": (
        "qwen3-30b-a3b",
        {**MEGATRON, "batch": 16, "seq": 2048, "gpus": 2, "train": f"lora:r=8,{EVERY},dropout=0.05"},
        {"ep": 2, "micro_batch": 8, "zero": 1, **FULL}, set(),
    ),
    "swift-megatron-dpo.sh": (
        "qwen2.5-7b",
        {**MEGATRON, "batch": 32, "seq": 8192, "gpus": 4, "train": "dpo"},
        {"tp": 4, "sequence_parallel": True, "micro_batch": 16, "zero": 1, **FULL}, set(),
    ),
    "swift-megatron-pipeline.sh": (
        "qwen3-30b-a3b",
        {**MEGATRON, "batch": 16, "seq": 8192, "gpus": 16},
        {"pp": 2, "ep": 8, "micro_batch": 1, "zero": 1, **FULL}, set(),
    ),
}  # fmt: skip
"""By sample: its model, its words and layout on 8 devices, and what is said to be left out; read by hand."""


def said(found: Imported) -> tuple[dict[str, Any], dict[str, Any]]:
    """Words and layout on so many devices."""
    return tuple(  # type: ignore[return-value]
        {name: value(DEVICES) if callable(value) else value for name, value in words.items()}
        for words in (found.words, found.layout)
    )


def read(data: dict[str, Any], before: str | None = "llama3-8b", name: str = "c.yaml") -> Imported:
    found = recognised(json.dumps(data, indent=1), name, model(before) if before else None)
    assert found is not None
    return found


LLAMA_FACTORY: dict[str, Any] = {"model_name_or_path": "meta-llama/Meta-Llama-3-8B", "finetuning_type": "lora",
                                 "per_device_train_batch_size": 1, "gradient_accumulation_steps": 4,
                                 "bf16": True}  # fmt: skip
AXOLOTL: dict[str, Any] = {"base_model": "meta-llama/Meta-Llama-3-8B", "sequence_len": 2048, "micro_batch_size": 1,
                           "gradient_accumulation_steps": 4}  # fmt: skip
TRL: dict[str, Any] = {"model_name_or_path": "meta-llama/Meta-Llama-3-8B", "dataset_name": "d",
                       "per_device_train_batch_size": 1}  # fmt: skip
TRAINER: dict[str, Any] = {"per_device_train_batch_size": 1, "bf16": True}
SWIFT: dict[str, Any] = {"model": "meta-llama/Meta-Llama-3-8B", "tuner_type": "lora", "max_length": 2048}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_gives_the_expected_question(name: str) -> None:
    found = read_run(SAMPLES / name)
    assert found is not None
    described, words, layout, left = EXPECTED[name]
    assert found.model == described
    if layout.get("zero", 0) is None:
        words = {**words, "overlap": None}
    assert said(found) == (words, layout)
    assert {row.word for row in found.table if row.kind in LOUD} == left
    assert {row.kind for row in found.table} <= set(CLASSES)


def test_every_sample_has_an_expected_question() -> None:
    formats = ("axolotl", "llamafactory", "trl", "trainer", "swift")
    assert {path.name for path in SAMPLES.iterdir() if path.name.split("-")[0] in formats} == set(EXPECTED)


@pytest.mark.parametrize("data", [AXOLOTL, LLAMA_FACTORY, TRL, TRAINER, SWIFT])
def test_gradient_accumulation_steps_alone_do_not_identify_deepspeed(data: dict[str, Any]) -> None:
    found = read({**data, "gradient_accumulation_steps": 4})
    assert "DeepSpeed" not in found.software


def test_a_qlora_file_of_llama_factory_is_read_as_qlora(tmp_path: Path) -> None:
    """Issue 50: it was answered as full fine-tuning in 207 GiB, with nothing said to be left out."""
    file = tmp_path / "lf.yaml"
    file.write_text((SAMPLES / "llamafactory-qlora-sft.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    for name in (f"llama3-8b@{file}", str(file)):
        found = lockstep.memory(name, cluster="rtx-4090:1", batch=8).to_dict()
        assert found["memory"]["fits"]
        linear, rest = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336), 2 * 128256 * 4096
        adapters = 32 * 8 * (4 * 4096 + 2 * (4096 + 1024) + 3 * (4096 + 14336))
        held_B = linear * (0.5 + 1 / 64 * (1 + 4 / 256)) + 2 * rest + 4 * adapters
        assert found["memory"]["parameters_B"] == pytest.approx(held_B, rel=0.001)
        assert found["memory"]["optimizer_B"] == 8 * adapters
    assert lockstep.estimate(f"llama3-8b@{file}", cluster="rtx-4090:1", batch=8).step_time_s > 0


TABLE = 128256 * 4096 / 8030261248
"""Share of the token table of Llama 3 8B, whose 8-bit states the Trainer keeps in fp32."""


@pytest.mark.parametrize(
    ("data", "bytes_each"),
    [
        ({**AXOLOTL, "bf16": True, "optimizer": "adamw_torch"}, 2 + 2 + 4),
        ({**AXOLOTL, "bf16": True, "optimizer": "paged_adamw_32bit"}, 2 + 2 + 8),
        ({**LLAMA_FACTORY, "finetuning_type": "full"}, 4 + 4 + 8),
        ({**LLAMA_FACTORY, "finetuning_type": "full", "pure_bf16": True, "bf16": False}, 2 + 2 + 4),
        ({**TRL}, 4 + 4 + 8),
        ({**TRL, "dtype": "bfloat16"}, 2 + 2 + 4),
        ({**TRAINER, "bf16": False}, 4 + 4 + 8),
        ({**SWIFT, "tuner_type": "full"}, 2 + 2 + 4),
        ({**SWIFT, "tuner_type": "full", "optim": "adamw_torch_8bit"}, 2 + 2 + 2 + 2 / 64),
        ({**SWIFT, "tuner_type": "full", "optim": "adamw_bnb_8bit"}, 2 + 2 + 2 + 2 / 64 + TABLE * (6 - 2 / 64)),
        ({**SWIFT, "tuner_type": "full", "optim": "paged_lion_8bit"}, 2 + 2 + 1 + 1 / 64 + TABLE * (3 - 1 / 64)),
        ({**SWIFT, "tuner_type": "full", "optim": "lion_32bit"}, 2 + 2 + 4),
        ({**TRAINER, "bf16": False, "optim": "lion_8bit"}, 4 + 4 + 1 + 1 / 64 + TABLE * (3 - 1 / 64)),
        ({**TRL, "dtype": "bfloat16", "optim": "schedule_free_adamw"}, 2 + 2 + 4),
        ({**TRL, "dtype": "bfloat16", "optim": "adamw_torch_4bit"}, 2 + 2 + 1 + 2 / 64),
        ({**TRL, "optim": "adamw_torch_4bit", "optim_args": "block_size=128"}, 4 + 4 + 1 + 4 / 64),
        ({**AXOLOTL, "bf16": True, "optimizer": "ao_adamw_fp8"}, 2 + 2 + 2 + 2 / 64),
    ],
)
def test_weights_gradients_and_states_take_the_bytes_of_their_software(data: dict[str, Any], bytes_each: float,
                                                                      tmp_path: Path) -> None:  # fmt: skip
    file = tmp_path / "c.json"
    file.write_text(json.dumps(data), encoding="utf-8")
    found = lockstep.memory(f"llama3-8b@{file}", cluster="b200:1", seq=1024, batch=4, offload="none").to_dict()
    assert found["bytes_per_parameter"] == pytest.approx(bytes_each, rel=2e-4)


@pytest.mark.parametrize(
    ("data", "recomputes"),
    [(AXOLOTL, False), (LLAMA_FACTORY, True), (TRL, True), (TRAINER, False), (SWIFT, True)],
)
def test_gradient_checkpointing_follows_the_default_of_the_software(data: dict[str, Any], recomputes: bool) -> None:
    assert (said(read(data))[1].get("recompute") == "full") is recomputes
    switch = {"disable_gradient_checkpointing": recomputes} if "finetuning_type" in data else {
        "gradient_checkpointing": not recomputes
    }  # fmt: skip
    assert (said(read({**data, **switch}))[1].get("recompute") == "full") is not recomputes


@pytest.mark.parametrize(
    ("named", "targets"),
    [
        ("llama3-8b", "q_proj+v_proj"),
        ("mixtral-8x7b", "q_proj+v_proj"),
        ("phi-2", "q_proj+v_proj+up_proj+down_proj"),
        ("gpt2", "qkv_proj"),
        ("pythia-1b", "qkv_proj"),
    ],
)
def test_adapters_without_targets_use_the_peft_defaults_of_the_family(named: str, targets: str) -> None:
    """Issue 50, I10: one default for all families."""
    found = read({**TRL, "model_name_or_path": None, "use_peft": True}, named)
    assert found.words["train"] == f"lora:r=16,targets={targets},dropout=0.05"
    axolotl = read({**AXOLOTL, "base_model": None, "adapter": "lora"}, named)
    assert axolotl.words["train"] == f"lora:r=8,targets={targets}"


@pytest.mark.parametrize("named", ["phi3-mini", "phi-4", "olmo2-7b", "granite3.0-8b", "qwen3-30b-a3b"])
def test_adapters_without_targets_are_refused_as_peft_refuses_them(named: str) -> None:
    with pytest.raises(BadInput, match="target") as caught:
        read({**TRL, "model_name_or_path": None, "use_peft": True}, named)
    assert caught.value.where == "c.yaml:5"
    assert read({**LLAMA_FACTORY, "model_name_or_path": None}, named).words["train"] == f"lora:r=8,{EVERY}"


@pytest.mark.parametrize(
    ("data", "train"),
    [
        ({**TRL, "use_peft": True, "use_dora": True, "use_rslora": True}, "lora:r=16,DEFAULT,dora=yes,rslora=yes"),
        (
            {**TRL, "use_peft": True, "lora_dropout": 0, "lora_target_parameters": ["mlp.experts.gate_up_proj"]},
            "lora:r=16,targets=q_proj+v_proj,parameters=gate_up_proj",
        ),
        ({**AXOLOTL, "adapter": "lora", "lora_r": 8, "peft_use_dora": True}, "lora:r=8,KV,dora=yes"),
        (
            {**AXOLOTL, "adapter": "lora", "lora_r": 8, "peft_init_lora_weights": "pissa_niter_4"},
            "lora:r=8,KV,init=pissa",
        ),
        ({**AXOLOTL, "adapter": "lora", "lora_r": 8, "peft_init_lora_weights": True}, "lora:r=8,KV"),
        ({**LLAMA_FACTORY, "use_dora": True, "pissa_init": True}, f"lora:r=8,{EVERY},dora=yes,init=pissa"),
        ({**LLAMA_FACTORY, "finetuning_type": "oft"}, f"oft:block=32,{EVERY}"),
        (
            {**LLAMA_FACTORY, "finetuning_type": "oft", "oft_rank": 8, "oft_block_size": 0, "oft_target": "q_proj"},
            "oft:blocks=8,targets=q_proj",
        ),
        (
            {**SWIFT, "use_rslora": True, "init_weights": "pissa"},
            f"lora:r=8,{EVERY},dropout=0.05,rslora=yes,init=pissa",
        ),
        ({**SWIFT, "tuner_type": "vera"}, "vera:r=256,targets=k_proj+v_proj"),
        ({**SWIFT, "tuner_type": "vera", "vera_rank": 64, "target_modules": ["q_proj"]}, "vera:r=64,targets=q_proj"),
    ],
)
def test_methods_of_peft_are_read_and_priced(data: dict[str, Any], train: str) -> None:
    """ms-swift leaves of VeRA's targets those as large as the values' matrix: in Llama 3 8B the keys'."""
    found = read(data)
    both = {"DEFAULT": "targets=q_proj+v_proj,dropout=0.05", "KV": "targets=q_proj+v_proj"}
    for short, whole in both.items():
        train = train.replace(short, whole)
    assert found.words["train"] == train
    assert not {row.word for row in found.table if row.kind == "unknown"}
    assert read_training(train).adapters is not None


def test_every_default_target_of_peft_is_supported() -> None:
    for family, modules in tables()["defaults"].items():
        targets = [tables()["names"].get(one, one) for one in modules]
        assert read_adapters(f"lora:r=8,targets={'+'.join(targets)}").targets, family


@pytest.mark.parametrize(
    "data",
    [
        {**AXOLOTL, "load_in_4bit": True},
        {**AXOLOTL, "adapter": "qlora"},
        {**AXOLOTL, "adapter": "lora", "load_in_4bit": True},
        {**AXOLOTL, "batch_size": 3, "micro_batch_size": 2},
        {**AXOLOTL, "adapter": "lora", "lora_dropout": 1},
        {**LLAMA_FACTORY, "finetuning_type": "full", "quantization_bit": 4},
        {**LLAMA_FACTORY, "fp16": True},
        {**LLAMA_FACTORY, "finetuning_type": "oft", "oft_rank": 8},
        {**LLAMA_FACTORY, "pissa_init": True, "quantization_bit": 4},
        {**TRL, "use_peft": True, "lora_target_parameters": ["mlp.experts.down_proj"]},
        {**LLAMA_FACTORY, "lora_rank": 0},
        {**LLAMA_FACTORY, "stage": "sfft"},
        {**LLAMA_FACTORY, "cutoff_lenn": 4096},
        {**TRL, "load_in_4bit": True},
        {**TRL, "lora_rank": 8},
        {**TRL, "fsdp": "full_shard", "deepspeed": {"zero_optimization": {"stage": 2}}},
        {**TRL, "fsdp": "full_shards"},
        {**TRL, "deepspeed": {"zero_optimization": {"stage": 7}}},
        {**TRL, "deepspeed": {"zero_optimisation": {"stage": 2}}},
        {**SWIFT, "tuner_type": "full", "quant_bits": 4, "quant_method": "bnb"},
        {**SWIFT, "per_device_train_batch_size": 1.5},
    ],
)
def test_settings_that_the_software_rejects_are_refused_at_their_line(data: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as caught:
        read(data)
    assert caught.value.where is not None
    assert caught.value.where.startswith("c.yaml:")


@pytest.mark.parametrize(
    ("data", "word"),
    [
        ({**TRL, "use_peft": True, "use_dora": True, "load_in_4bit": True}, "use_dora"),
        ({**LLAMA_FACTORY, "finetuning_type": "oft", "quantization_bit": 4}, "finetuning_type"),
        ({**TRL, "use_peft": True, "lora_dropout": 0, "lora_target_parameters": ["a.b"]}, "lora_target_parameters"),
        ({**TRL, "use_peft": True, "lora_modules_to_save": ["norm", "lm_head"]}, "lora_modules_to_save"),
        ({**TRL, "optim": "ademamix"}, "optim"),
        ({**LLAMA_FACTORY, "finetuning_type": "freeze"}, "finetuning_type"),
        ({**LLAMA_FACTORY, "lora_target": "q_proj,lm_head"}, "lora_target"),
        ({**LLAMA_FACTORY, "quantization_bit": 4, "quantization_type": "fp4"}, "quantization_type"),
        ({**LLAMA_FACTORY, "deepspeed": "elsewhere/mine.json"}, "deepspeed"),
        (
            {**LLAMA_FACTORY, "deepspeed": {"compression_training": {"pruning": 1}}},
            "deepspeed.compression_training.pruning",
        ),
        ({**AXOLOTL, "model_config": {"num_hidden_layers": 4}}, "model_config.num_hidden_layers"),
        ({**AXOLOTL, "liger_rms_norm": True}, "liger_rms_norm"),
        ({**AXOLOTL, "fsdp": ["hybrid_shard"]}, "fsdp"),
        ({**SWIFT, "tuner_type": "boft"}, "tuner_type"),
        ({**SWIFT, "freeze_parameters_ratio": 0.5}, "freeze_parameters_ratio"),
    ],
)
def test_unsupported_settings_are_reported(data: dict[str, Any], word: str) -> None:
    assert word in {row.word for row in read(data).table if row.kind == "unknown"}


def test_a_model_named_before_the_file_overrides_and_reports_the_files_model() -> None:
    assert {row.word for row in read(TRL, "llama2-7b").table if row.kind == "contradictory"} == {"model_name_or_path"}
    assert not [row for row in read(TRL, "llama3-8b").table if row.kind == "contradictory"]
    found = read({**TRL, "model_name_or_path": "example/unheard-of"}, None)
    assert found.model is None
    assert found.called == "example/unheard-of"


def test_an_unknown_model_is_named_in_the_error(tmp_path: Path) -> None:
    file = tmp_path / "trl.yaml"
    file.write_text("model_name_or_path: example/unheard-of\ndataset_name: d\n", encoding="utf-8")
    with pytest.raises(BadInput, match="example/unheard-of"):
        lockstep.memory(str(file), cluster="rtx-4090:1")


def test_deepspeed_settings_are_read_from_file_inline_or_option_alike(tmp_path: Path) -> None:
    inside = {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "overlap_comm": False},
              "bf16": {"enabled": "auto"}, "train_micro_batch_size_per_gpu": "auto"}  # fmt: skip
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/ds.json").write_text(json.dumps(inside), encoding="utf-8")
    answers = []
    for value in (inside, "folder/ds.json", "ds_z2_offload_config.json"):
        file = tmp_path / "c.json"
        file.write_text(json.dumps({**LLAMA_FACTORY, "deepspeed": value}, indent=1), encoding="utf-8")
        found = read_run(file)
        assert found is not None
        assert not found.unread
        answers.append(said(found))
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][1]["zero"] == 2


@pytest.mark.parametrize(
    ("sample", "command", "changed"),
    [
        ("llamafactory-qlora-sft.yaml", "NPROC_PER_NODE=2 llamafactory-cli train {} cutoff_len=4096", "seq"),
        ("llamafactory-qlora-sft.yaml", "FORCE_TORCHRUN=1 llamafactory-cli train examples/{} cutoff_len=4096", "seq"),
        ("axolotl-full-8b.yaml", "axolotl train {} --sequence-len 4096", "seq"),
        ("axolotl-full-8b.yaml", "accelerate launch -m axolotl.cli.train configs/{} --sequence_len 4096", "seq"),
        ("trl-sft-qlora.yaml", "trl sft --config {} --max_length 4096", "seq"),
        ("trl-sft-qlora.yaml", "accelerate launch --num_processes 2 sft.py --config {} --max_length=4096", "seq"),
    ],
)
def test_command_options_override_the_configuration_file(
    sample: str, command: str, changed: str, tmp_path: Path
) -> None:
    (tmp_path / sample).write_text((SAMPLES / sample).read_text(encoding="utf-8"), encoding="utf-8")
    script = tmp_path / "run.sh"
    for before in ("", "set -e\n"):
        script.write_text(f"{before}{command.format(sample)}\n", encoding="utf-8")
        found, alone = read_run(script), read_run(tmp_path / sample)
        assert found is not None
        assert alone is not None
        processes = {"gpus": 2} if "NPROC" in command or "num_processes" in command else {}
        assert said(found) == ({**said(alone)[0], changed: 4096, **processes}, said(alone)[1])


def test_a_command_with_a_missing_configuration_file_is_refused_at_its_line(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    for command in ("llamafactory-cli train gone.yaml", "axolotl train ../gone.yml", "trl sft --config gone.yaml"):
        script.write_text(f"\n{command} --learning_rate 1e-5\n", encoding="utf-8")
        with pytest.raises(BadInput, match="gone") as caught:
            read_run(script)
        assert caught.value.where == f"{script}:2"


def test_the_accelerate_configuration_of_a_command_sets_the_sharding(tmp_path: Path) -> None:
    (tmp_path / "fsdp.yaml").write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 4\n"
        "num_machines: 1\nfsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n"
        "  fsdp_offload_params: false\n",
        encoding="utf-8",
    )
    script = tmp_path / "run.sh"
    for named, zero, unknown in (("fsdp.yaml", 3, []), ("gone.yaml", None, ["launcher.config_file"])):
        script.write_text(
            f"accelerate launch --config_file configs/{named} trl/scripts/sft.py --dataset_name d "
            "--model_name_or_path meta-llama/Meta-Llama-3-8B --dtype bfloat16\n",
            encoding="utf-8",
        )
        found = read_run(script)
        assert found is not None
        words, layout = said(found)
        assert layout.get("zero") == zero
        assert words.get("gpus") == (4 if zero else None)
        assert words["optimizer"] == ("adamw" if zero else "adamw-bf16")
        assert [row.word for row in found.table if row.kind == "unknown"] == unknown


def test_a_file_of_deepspeed_is_read_at_a_relative_path_only(tmp_path: Path) -> None:
    other = tmp_path / "out.json"
    other.write_text('{"zero_optimization": {"stage": 3}}', encoding="utf-8")
    (tmp_path / "in").mkdir()
    for named, unknown in ((str(other), ["deepspeed"]), ("gone.json", ["deepspeed"]), ("../out.json", [])):
        file = tmp_path / "in/c.json"
        file.write_text(json.dumps({**TRL, "deepspeed": named}), encoding="utf-8")
        found = read_run(file)
        assert found is not None
        assert [row.word for row in found.table if row.kind == "unknown"] == unknown


def test_nested_configurations_are_listed_with_contradictions() -> None:
    inner = {"zero_optimization": {"stage": 1}, "train_micro_batch_size_per_gpu": 4, "nonsense_here": 1}
    found = read({**TRL, "deepspeed": inner})
    table = {row.word: row.kind for row in found.table}
    assert table["deepspeed.zero_optimization.stage"] == "read"
    assert table["deepspeed.train_micro_batch_size_per_gpu"] == "contradictory"
    assert table["deepspeed.nonsense_here"] == "unknown"


def test_a_single_device_shards_nothing(tmp_path: Path) -> None:
    for data in ({**TRAINER, "fsdp": "full_shard"}, {**LLAMA_FACTORY, "deepspeed": "ds_z3_config.json"}):
        file = tmp_path / "c.json"
        file.write_text(json.dumps(data), encoding="utf-8")
        alone = lockstep.memory(f"llama3.2-1b@{file}", cluster="h100-sxm:1", batch=4, seq=512).to_dict()
        assert alone["layout"]["zero"] == 0
        assert lockstep.memory(f"llama3.2-1b@{file}", cluster="h100-sxm:4", seq=512).to_dict()["layout"]["zero"] == 3


def test_tables_that_are_trained_beside_adapters_are_read() -> None:
    """PEFT's modules_to_save, by each program's word; other modules are said to be left out."""
    asked = [
        ({**TRL, "use_peft": True}, "lora_modules_to_save"),
        ({**AXOLOTL, "adapter": "lora"}, "lora_modules_to_save"),
        ({**LLAMA_FACTORY, "finetuning_type": "lora"}, "additional_target"),
        ({**SWIFT, "tuner_type": "lora"}, "modules_to_save"),
    ]
    for data, word in asked:
        found = read({**data, word: ["embed_tokens", "lm_head"]})
        assert str(found.words["train"]).endswith(",save=embed_tokens+lm_head"), data
        assert word not in {row.word for row in found.table if row.kind in LOUD}
        left = read({**data, word: ["lm_head", "norm"]})
        assert str(left.words["train"]).endswith(",save=lm_head"), data
        assert word in {row.word for row in left.table if row.kind in LOUD}


def test_objectives_follow_the_software() -> None:
    objectives = [
        ({**TRL, "beta": 0.1}, "dpo"),
        ({**TRL, "beta": 0.1, "precompute_ref_log_probs": True}, "dpo:reference=precomputed"),
        ({**TRL, "num_generations": 8, "beta": 0.04}, "grpo:beta=0.04"),
        ({**TRL, "num_generations": 8}, "grpo:beta=0"),
        (
            {**TRL, "num_generations": 8, "num_iterations": 2, "steps_per_generation": 4},
            "grpo:beta=0,iterations=2,steps-per-generation=4",
        ),
        (
            {**TRL, "num_generations": 8, "use_vllm": True, "generation_batch_size": 64},
            "grpo:beta=0,old=always,generation-batch=64",
        ),
        ({**TRL, "desirable_weight": 1.0}, "kto"),
        ({**TRL, "desirable_weight": 1.0, "loss_type": "apo_zero_unpaired"}, "kto:kl=no"),
        ({**TRL, "center_rewards_coefficient": 0.01}, "reward"),
        ({**LLAMA_FACTORY, "finetuning_type": "full", "stage": "rm"}, "reward"),
        ({**AXOLOTL, "rl": "kto"}, "kto"),
        ({**LLAMA_FACTORY, "finetuning_type": "full", "stage": "dpo", "pref_loss": "orpo"}, "dpo:reference=none"),
        ({**AXOLOTL, "rl": "simpo"}, "dpo:reference=none"),
        ({**AXOLOTL, "rl": "grpo", "trl": {"beta": 0.1}}, "grpo"),
        ({**SWIFT, "tuner_type": "full", "rlhf_type": "grpo"}, "grpo"),
    ]
    for data, objective in objectives:
        assert read(data).words["train"] == objective, data


def test_a_reward_model_is_recognised_by_an_empty_setting() -> None:
    found = read({**TRL, "center_rewards_coefficient": None})
    assert said(found)[0]["batch"] == 2 * said(read(TRL))[0]["batch"]
    assert found.words["train"] == "reward"


def test_vllm_settings_are_read_only_where_it_runs() -> None:
    settings = {**TRL, "num_generations": 8, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.3}
    assert not read(settings).unread
    left = {row.word for row in read({**settings, "use_vllm": True}).table if row.kind in LOUD}
    assert left == {"use_vllm", "vllm_mode", "vllm_gpu_memory_utilization"}


def test_pairs_of_answers_are_two_sequences() -> None:
    for data in ({**TRL, "beta": 0.1}, {**LLAMA_FACTORY, "stage": "dpo"}, {**AXOLOTL, "rl": "orpo"}):
        alone = {name: value for name, value in data.items() if name not in ("beta", "stage", "rl")}
        assert said(read(data))[0]["batch"] == 2 * said(read(alone))[0]["batch"]


@pytest.mark.parametrize(("devices", "batch"), [(1, 16), (2, 16), (8, 16), (16, 16), (32, 32)])
def test_ms_swift_accumulates_until_a_step_has_sixteen_sequences(devices: int, batch: int) -> None:
    words = read(SWIFT).words
    assert words["batch"](devices) == batch
