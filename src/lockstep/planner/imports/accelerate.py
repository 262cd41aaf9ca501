"""Accelerate's YAML as a question and a layout; the Trainer's arguments are read from comments, where they stand.

    # TrainingArguments: per_device_train_batch_size=1, gradient_accumulation_steps=8
    # peft: LoraConfig(r=16, target_modules=["q_proj", "v_proj"])

Without them the batch is a word to give, and so is the sequence length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lockstep.planner.export.accelerate import OPTIMIZERS, PAGED
from lockstep.planner.export.torchtitan import ROTATIONS
from lockstep.planner.imports.imported import Imported, flat, integer
from lockstep.types.plain import Json
from lockstep.workload import Model

STACK = "hf-trainer"
SIGNS = {"compute_environment", "distributed_type", "fsdp_config", "deepspeed_config"}
KINDS = {word: kind for kind, word in ROTATIONS.items()}
ARGUMENT = re.compile(r"\b(per_device_train_batch_size|gradient_accumulation_steps)\s*[=:]\s*(\d+)")
SEQUENCES = re.compile(r"sequences of (\d+) tokens|\bmax_(?:seq_)?length\s*[=:]\s*(\d+)")
CHECKPOINTING = re.compile(r"\bgradient_checkpointing\s*[=:]\s*[Tt]rue")
LORA = re.compile(r"LoraConfig\(\s*r=(\d+).*?target_modules=\[([^\]]*)\](?:.*?lora_dropout=([\d.e-]+))?")
OPTIMIZER = re.compile(r"\boptim=(\w+)( with weight_decay 0)?")
ON = (True, "true", "True")
UNREAD = ("fsdp_config.fsdp_activation_checkpointing_offload", "parallelism_config.parallelism_config_sp_size")


def accelerate(data: Mapping[str, Any], text: str, model: Model | None) -> Imported | None:
    """What a configuration says; None where it is something else."""
    if not SIGNS & set(data):
        return None
    said, found = flat(data), Imported("Accelerate's YAML", words={"stack": STACK}, model=model)
    sizes = {name.removeprefix("parallelism_config.parallelism_config_"): value for name, value in said.items()}
    found.degrees(tp=integer(sizes, "tp_size"), cp=integer(sizes, "cp_size"))
    if found.layout.get("cp", 1) > 1:
        kind = KINDS.get(str(sizes.get("cp_comm_strategy", "allgather")), "gather")
        found.set(found.words, cp_kind=None if kind == "ring" else kind)
    processes = integer(said, "num_processes", 0)
    found.set(found.words, gpus=processes if processes > 0 else None)
    dtype = str(said.get("mixed_precision", "no"))
    found.set(found.words, dtype=dtype if dtype in ("bf16", "fp16", "fp8") else None)
    if said.get("distributed_type") == "FSDP" or "fsdp_config.fsdp_version" in said:
        _fsdp(found, said, sizes, dtype)
    elif said.get("distributed_type") == "DEEPSPEED":
        _deepspeed(found, said)
    _comments(found, text)
    found.missing(UNREAD, {one: value for one, value in said.items() if value is True or value != 1})
    return found


def _fsdp(found: Imported, said: Json, sizes: Json, dtype: str) -> None:
    reshard = said.get("fsdp_config.fsdp_reshard_after_forward", True)
    strategy = str(said.get("fsdp_config.fsdp_sharding_strategy", reshard)).upper()
    found.layout["zero"] = 3 if strategy in ("TRUE", "FULL_SHARD", "HYBRID_SHARD", "1", "4") else 2
    if said.get("fsdp_config.fsdp_offload_params") in ON:
        found.layout["offload"] = "parameters"
    if said.get("fsdp_config.fsdp_activation_checkpointing") in ON:
        found.layout["recompute"] = "full"
    if integer(sizes, "dp_replicate_size") > 1:
        found.layout["shard"] = integer(sizes, "dp_shard_size") * found.layout.get("cp", 1)
    if dtype in ("bf16", "fp16"):
        found.words["reduce_bytes"] = 2


def _deepspeed(found: Imported, said: Json) -> None:
    found.words["stack"] = "deepspeed"
    found.set(found.layout, zero=integer(said, "deepspeed_config.zero_stage", 2) or None)
    for part, state in (("optimizer", "optimizer"), ("param", "parameters")):
        if said.get(f"deepspeed_config.offload_{part}_device") == "cpu":
            found.layout["offload"] = state
    if "deepspeed_config.deepspeed_config_file" in said:
        found.unread.append(f"deepspeed_config_file {said['deepspeed_config.deepspeed_config_file']}: read that file")


def _comments(found: Imported, text: str) -> None:
    beside = "\n".join(line for line in text.splitlines() if line.lstrip().startswith("#"))
    given = {name: int(value) for name, value in ARGUMENT.findall(beside)}
    if "per_device_train_batch_size" in given:
        micro, steps = given["per_device_train_batch_size"], given.get("gradient_accumulation_steps", 1)
        found.layout["micro_batch"] = micro
        found.words["batch"] = lambda devices: micro * steps * found.replicas(devices)
    if tokens := SEQUENCES.search(beside):
        found.words["seq"] = int(tokens[1] or tokens[2])
    if CHECKPOINTING.search(beside):
        found.layout["recompute"] = "full"
    if lora := LORA.search(beside):
        targets = "+".join(re.findall(r"\w+", lora[2]))
        dropout = f",dropout={lora[3]}" if lora[3] and float(lora[3]) else ""
        found.words["train"] = f"lora:r={lora[1]},targets={targets}{dropout}"
    if optimizer := OPTIMIZER.search(beside):
        named = {word: name for names in (OPTIMIZERS, PAGED) for name, word in names.items()}
        name = named.get(optimizer[1] + (optimizer[2] or ""))
        found.set(found.layout, offload="paged" if optimizer[1] in PAGED.values() else None)
        found.set(found.words, optimizer=name if name != "adamw" else None)
