"""DeepSpeed's JSON as a question and a layout.

It holds no sequence length and no number of ranks, and `"auto"` stands for what the Trainer is given: those are words
to give. Recomputation is decided in the model's code; a file that `export` wrote says it in its comment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from lockstep.errors import BadInput
from lockstep.parallel.data.coordinator import Limits
from lockstep.planner.export.deepspeed import CHECKPOINTING, COMMENT, OPTIMIZERS
from lockstep.planner.imports.imported import Imported, flat, integer
from lockstep.types.plain import Json
from lockstep.workload import Model, Transformer

STACK = "deepspeed"
SIGNS = {"train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization", "gradient_accumulation_steps"}
NAMED = {word.lower(): name for name, word in OPTIMIZERS.items()}
WIRE_B = {"fp32": 4, "fp16": 2, "bf16": 2, "bfp16": 2}
UNREAD = (
    "zero_optimization.zero_hpz_partition_size", "zero_optimization.zero_quantized_weights",
    "zero_optimization.zero_quantized_gradients", "zero_optimization.zenflow", "zero_optimization.mics_shard_size",
    "sequence_parallel_size", "compression_training", "data_efficiency", "amp.enabled", "torch_autocast.enabled",
    "activation_checkpointing.partition_activations",
)  # fmt: skip


def deepspeed(data: Mapping[str, Any], name: str, model: Model | None) -> Imported | None:
    """What a configuration says; None where it is something else."""
    if not SIGNS & set(data):
        return None
    said, found = flat(data), Imported("DeepSpeed's JSON", words={"stack": STACK}, model=model)
    found.degrees(tp=integer(said, "tensor_parallel.autotp_size"), pp=integer(said, "pipeline.stages"))
    batch_of(found, said)
    _zero(found, said)
    if found.layout.get("zero") == 3:
        _limits(found, said, model)
    _formats(found, said)
    interval = integer(said, "pipeline.activation_checkpoint_interval", 0)
    if (found.layout.get("pp", 1) > 1 and interval) or CHECKPOINTING in str(data.get(COMMENT)):
        found.layout["recompute"] = "full"
    if said.get("activation_checkpointing.cpu_checkpointing") and "recompute" in found.layout:
        found.words |= {"offload_layers": "all", "sharding": "deepspeed"}
    found.missing(UNREAD, {one: value for one, value in said.items() if value is True or value != 1})
    return found


def batch_of(found: Imported, said: Json) -> None:
    """Batch and micro-batch; two of three numbers give the third on so many devices."""
    names = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    batch, micro, steps = (integer(said, name, 0) for name in names)
    if not batch and not micro:
        return
    if micro:
        found.layout["micro_batch"] = micro
    elif steps:
        found.layout["micro_batch"] = lambda devices: max(1, batch // (steps * found.replicas(devices)))
    found.words["batch"] = batch or (lambda devices: micro * max(1, steps) * found.replicas(devices))
    if batch and micro and steps:
        found.words["gpus"] = batch // (micro * steps) * found.dense_ranks


def _zero(found: Imported, said: Json) -> None:
    stage = integer(said, "zero_optimization.stage", 0)
    found.set(found.layout, zero=stage or None)
    devices = {part: said.get(f"zero_optimization.offload_{part}.device", "none") for part in ("optimizer", "param")}
    found.unread += [f"offload_{part} to {device}" for part, device in devices.items() if device == "nvme"]
    if devices["param"] == "cpu":
        found.layout["offload"] = "parameters"
    elif devices["optimizer"] == "cpu":
        found.layout["offload"] = "optimizer"
    # Its own default is to overlap with ZeRO 3 alone (runtime/zero/config.py).
    if not said.get("zero_optimization.overlap_comm", stage == 3):
        found.words["overlap"] = False


def _limits(found: Imported, said: Json, model: Model | None) -> None:
    """Limits of gathers, those that are "auto" as transformers fills them in (integrations/deepspeed.py)."""
    hidden = model.hidden if isinstance(model, Transformer) else None
    filled = {} if hidden is None else {
        "prefetch_bucket_size": int(0.9 * hidden * hidden), "param_persistence_threshold": 10 * hidden
    }  # fmt: skip
    limits = {}
    for one in fields(Limits):
        key = f"zero_optimization.stage3_{one.name}"
        if said.get(key) == "auto" and one.name not in filled:
            found.unread.append(f"stage3_{one.name}=auto")
            continue
        limits[one.name] = filled[one.name] if said.get(key) == "auto" else _elements(said, key, one.default)
    changed = Limits(**limits).changed
    found.set(found.words, gather_limits=",".join(f"{name}={number}" for name, number in changed.items()) or None)


def _elements(said: Json, key: str, default: object) -> int:
    """A limit in elements, which DeepSpeed also reads as 1e9. Raises BadInput."""
    value = said.get(key, default)
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if not (number >= 0 and number == number // 1):
        raise BadInput(f"{key} must be a whole number of elements from 0 on, got {str(value)[:40]!r}", "MODEL")
    return int(number)


def _formats(found: Imported, said: Json) -> None:
    half = next((one for one in ("bf16", "fp16") if said.get(f"{one}.enabled") in (True, "auto")), None)
    found.set(found.words, dtype=half)
    gradient, wire = said.get("data_types.grad_accum_dtype"), said.get("communication_data_type")
    if gradient in WIRE_B:
        found.words["gradient_bytes"] = WIRE_B[gradient]
    if wire in WIRE_B and WIRE_B[wire] != WIRE_B.get(str(gradient)):
        found.words["reduce_bytes"] = WIRE_B[wire]
    optimizer = str(said.get("optimizer.type", "AdamW")).lower()
    if optimizer not in NAMED:
        found.unread.append(f"optimizer.type={optimizer}")
    found.set(found.words, optimizer=NAMED.get(optimizer) if optimizer != "adamw" else None)
