"""Accelerate's YAML as a question and a layout; the Trainer's arguments are read from comments, where they stand.

    # TrainingArguments: per_device_train_batch_size=1, gradient_accumulation_steps=8
    # peft: LoraConfig(r=16, target_modules=["q_proj", "v_proj"])

Without them the batch is a setting to give, and so is the sequence length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from lockstep.decide.planner.export.accelerate import OPTIMIZERS, PAGED
from lockstep.decide.planner.export.torchtitan import ROTATIONS
from lockstep.decide.planner.imports.beside import beside
from lockstep.decide.planner.imports.deepspeed import deepspeed, spelled_out
from lockstep.decide.planner.imports.formats import format_of
from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.said import NOTHING_BESIDE, Said
from lockstep.decide.planner.imports.text import Text
from lockstep.describe.workload import Model

STACK = "hf-trainer"
KINDS = {word: kind for kind, word in ROTATIONS.items()}
STRATEGIES = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2")
"""Of FSDP 1, which counts them from 1."""
STAGES = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0, "HYBRID_SHARD": 3, "HYBRID_SHARD_ZERO2": 2}
FSDP, AXES, MEGATRON = "fsdp_config.fsdp_", "parallelism_config.parallelism_config_", "megatron_lm_config.megatron_lm_"
DEEPSPEED_FILE = "deepspeed_config.deepspeed_config_file"
BARE = {"fsdp_config": "fsdp_", "dynamo_config": "dynamo_"}
"""Sections whose settings may be written with or without this beginning; it is put before those that lack it."""
TRAINERS = r"(?:per_device_train_batch_size|gradient_accumulation_steps)"
ARGUMENT = re.compile(rf"\b({TRAINERS})\s*[=:]\s*(\d{{1,9}})\b")
SEQUENCES = re.compile(r"sequences of (\d{1,9}) tokens|\bmax_(?:seq_)?length\s*[=:]\s*(\d{1,9})")
CHECKPOINTING = re.compile(r"\bgradient_checkpointing\s*[=:]\s*[Tt]rue")
LORA = re.compile(
    r"LoraConfig\(\s?r=(\d{1,9}).{0,200}?target_modules=\[([^\]]{0,2000})\](?:.{0,200}?lora_dropout=(\d*\.?\d+(?:e-\d+)?))?"
)
OPTIMIZER = re.compile(r"\boptim=(\w+)( with weight_decay 0)?")


def prepared(text: Text) -> Text:
    """The same settings, each written in the one way that the format has."""
    named = {word: _named(word) for word in text.words}
    words = {named[word]: value for word, value in text.words.items()}
    return replace(
        text, words=words, lines={**text.lines, **{named.get(word, word): at for word, at in text.lines.items()}}
    )


def _named(word: str) -> str:
    section, _, name = word.partition(".")
    if section == "fp8_config" and name != "fp8_format":
        return f"{section}.{name.removeprefix('fp8_')}"
    begins = BARE.get(section, "")
    return word if not name or name.startswith(begins) else f"{section}.{begins}{name}"


def accelerate(said: Said, name: str, model: Model | None) -> Imported:
    """What a configuration says."""
    found = Imported(said.format.name, words={"stack": STACK}, model=model)
    processes, machines = said["num_processes"], said["num_machines"]
    if processes > 0 and processes % machines:
        raise said.refuse("num_processes", f"is {processes}, which the {machines} of num_machines do not divide")
    found.set(found.words, gpus=processes if processes > 0 else None)
    _format(found, said)
    if "distributed_type" not in said:
        raise said.refuse("distributed_type", "is missing; Accelerate reads no file without it")
    PLUGINS.get(said["distributed_type"], _replicated)(found, said)
    _comments(found, said)
    return found


def _format(found: Imported, said: Said) -> None:
    """Without a setting for it, matrix products are in fp32."""
    dtype = said["mixed_precision"]
    if dtype in (True, False):
        dtype = "no"
    if dtype == "no" and "mixed_precision" not in said and said["fp16"]:
        dtype = "fp16"
    found.words["dtype"] = "fp32" if dtype == "no" else dtype
    if dtype == "fp8":
        backend = str(said["fp8_config.backend"] or "").upper()
        if backend == "MSAMP":
            said.leave("fp8_config.backend", "states and gradients in fp8")
        found.set(found.words, fp8_scaling={"TE": "delayed", "AO": "current"}.get(backend))


def _replicated(found: Imported, said: Said) -> None:
    """DDP, or one process."""
    found.layout["zero"] = 0


def _fsdp(found: Imported, said: Said) -> None:
    _axes(found, said)
    shard = 0
    if said[f"{FSDP}version"] == "2":
        reshard = said[f"{FSDP}reshard_after_forward"]
        if not isinstance(reshard, bool):
            raise said.refuse(f"{FSDP}reshard_after_forward", "must be true or false with fsdp_version 2")
        found.layout["zero"] = 3 if reshard else 2
    else:
        strategy = said[f"{FSDP}sharding_strategy"].upper()
        strategy = STRATEGIES[int(strategy) - 1] if strategy.isdigit() else strategy
        found.layout["zero"] = STAGES[strategy]
        shard = _within_nodes(said) if strategy.startswith("HYBRID") else 0
    copies, sharded = said[f"{AXES}dp_replicate_size"], said[f"{AXES}dp_shard_size"]
    if copies > 1:
        shard = sharded * found.layout.get("cp", 1)
    found.set(found.layout, shard=shard or None)
    if said[f"{FSDP}offload_params"]:
        found.offload_parameters()
    if said[f"{FSDP}activation_checkpointing"]:
        found.layout["recompute"] = "full"
    # FSDP reduces in the format of its products, of fp8 in bf16 (set_mixed_precision).
    if found.words["dtype"] != "fp32":
        found.words["reduce_bytes"] = 2


def _within_nodes(said: Said) -> int:
    """Ranks of a node, which share a copy under a hybrid strategy; 0 for all of them."""
    processes, machines = said["num_processes"], said["num_machines"]
    if processes < 0:
        said.leave(f"{FSDP}sharding_strategy", "a copy in every node: give --shard with the devices of a node")
    return processes // machines if processes > 0 and machines > 1 else 0


def _axes(found: Imported, said: Said) -> None:
    """Degrees of the parallelism configuration, whose product is the number of processes."""
    sizes = {name: said[f"{AXES}{name}_size"] for name in ("dp_replicate", "dp_shard", "tp", "cp", "sp")}
    ranks = 1
    for size in sizes.values():
        ranks *= size
    if ranks > 1 and ranks != found.words.setdefault("gpus", ranks):
        raise said.refuse("parallelism_config", f"has {ranks} ranks, and num_processes is {found.words['gpus']}")
    if sizes["cp"] > 1 and sizes["sp"] > 1:
        raise said.refuse(f"{AXES}sp_size", "is above 1, and so is cp_size: Accelerate accepts only one of them")
    found.degrees(tp=sizes["tp"], cp=sizes["cp"] * sizes["sp"])
    kind = "all-to-all" if sizes["sp"] > 1 else KINDS[said[f"{AXES}cp_comm_strategy"]]
    found.set(found.words, cp_kind=kind if found.layout.get("cp", 1) > 1 and kind != "ring" else None)


def _deepspeed(found: Imported, said: Said) -> None:
    _axes(found, said)
    found.words["stack"] = "deepspeed"
    file = said[DEEPSPEED_FILE]
    if file and file != "none":
        _of_file(found, said, file)
        return
    found.layout["zero"] = said["deepspeed_config.zero_stage"]
    for part, state in (("optimizer", "optimizer"), ("param", "parameters")):
        device = said[f"deepspeed_config.offload_{part}_device"]
        if device == "nvme":
            said.leave(f"deepspeed_config.offload_{part}_device", "states on local disks")
        if part == "param" and found.layout["zero"] != 3:
            # DeepSpeed gives it to stage 3 alone (runtime/engine.py).
            said.noted["deepspeed_config.offload_param_device"] = ("harmless", NOTHING_BESIDE)
            continue
        found.set(found.layout, offload=state if device == "cpu" else None)


def _of_file(found: Imported, said: Said, name: str) -> None:
    """The settings of DeepSpeed's own configuration, which count where there is one."""
    text = beside(said.text, name, "json")
    if text is None:
        said.leave(DEEPSPEED_FILE, "the words of that file, which does not lie beside: give MODEL@THAT_FILE")
        return
    inner = Said(format_of("deepspeed"), spelled_out(text), said.accepted)
    given = found.model if not isinstance(found.model, str) else None
    read = deepspeed(inner, name, given)
    if "mixed_precision" in said and read.words["dtype"] != found.words["dtype"]:
        said.contradiction("mixed_precision", f"{name} counts, which has {read.words['dtype']}")
    found.words |= read.words
    found.layout |= {"zero": 0, **read.layout}
    rows = (replace(row, word=f"{DEEPSPEED_FILE}.{row.word}") for row in inner.rows())
    said.inner[DEEPSPEED_FILE] = tuple(rows)


def _megatron(found: Imported, said: Said) -> None:
    found.words["stack"] = "megatron-te"
    degrees = {"tp": "tp_degree", "pp": "pp_degree", "cp": "context_parallel_size", "ep": "expert_model_parallel_size"}
    found.degrees(**{name: said[MEGATRON + word] for name, word in degrees.items()})
    layout = found.layout
    if layout.get("ep", 1) > 1 and said[f"{MEGATRON}expert_tensor_parallel_size"] != layout.get("tp", 1):
        layout["etp"] = said[f"{MEGATRON}expert_tensor_parallel_size"]
    if layout.get("tp", 1) > 1 and said[f"{MEGATRON}sequence_parallelism"]:
        layout["sequence_parallel"] = True
    layout["zero"] = int(said[f"{MEGATRON}use_distributed_optimizer"])
    layout["recompute"] = said[f"{MEGATRON}recompute_granularity"]
    if said[f"{MEGATRON}optimizer_cpu_offload"]:
        layout["offload"] = "optimizer"
    if any(said[f"{MEGATRON}{part}_dropout"] for part in ("attention", "hidden")):
        found.words["dropout"] = True


PLUGINS: Mapping[str, Callable[[Imported, Said], None]] = {
    "FSDP": _fsdp,
    "DEEPSPEED": _deepspeed,
    "MEGATRON_LM": _megatron,
}


def _comments(found: Imported, said: Said) -> None:
    beside = "\n".join(line for line in said.text.raw.splitlines() if line.lstrip().startswith("#"))
    given = {name: int(value) for name, value in ARGUMENT.findall(beside)}
    micro, steps = (given.get(name) for name in ("per_device_train_batch_size", "gradient_accumulation_steps"))
    if micro:
        found.layout["micro_batch"] = micro
        found.words["batch"] = lambda devices: micro * (steps or 1) * found.replicas(devices)
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
