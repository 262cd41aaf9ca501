"""torchtitan's TOML (until 0.2) and its command line (0.3) as a question and a layout.

A name and flavor of its own model, or `--config llama3_8b`, is the catalog's model of that name, where it has one.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping
from typing import Any

from lockstep.planner.export.torchtitan import ROTATIONS, SCHEDULES, UNNAMED
from lockstep.planner.export.torchtitan_models import flavors
from lockstep.planner.imports.imported import Imported, flat, integer
from lockstep.types.plain import Json
from lockstep.workload import Model, Transformer

STACK = "torchtitan"
KINDS = {word: kind for kind, word in ROTATIONS.items()}
NAMED = {word: schedule for schedule, word in SCHEDULES.items()}
WHOLE_BF16 = "training.dtype=bfloat16"


def torchtitan(text: str, name: str, model: Model | None) -> Imported | None:
    """What a TOML file or a command line says; None where it is something else."""
    if "--parallelism." in text or "--training.local_batch_size" in text:
        return _read(_of_words(text), "torchtitan's command line", model, today=True)
    if "[parallelism]" not in text and "[training]" not in text:
        return None
    try:
        data = flat(tomllib.loads(text))
    except tomllib.TOMLDecodeError:
        return None
    return _read(data, "torchtitan's TOML", model, today=False)


def _of_words(text: str) -> Json:
    """Options by dotted name; a switch is on, or off after `no-`."""
    lines = [line for line in text.replace("\\\n", " ").splitlines() if not line.lstrip().startswith("#")]
    words, found = shlex.split(" ".join(lines)), dict[str, Any]()
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("activation-checkpoint:"):
            found["activation_checkpoint.mode"] = word.split(":")[1]
        elif word.startswith("--"):
            key, joined, value = word[2:].partition("=")
            section, _, field = key.rpartition(".")
            bare = not joined and (not after or after.startswith(("--", "activation-checkpoint:")))
            off = bare and field.startswith(("no-", "no_"))
            field = (field[3:] if off else field).replace("-", "_")
            found[f"{section}.{field}" if section else field] = not off if bare else value if joined else after
    return found


def _read(said: Json, software: str, model: Model | None, today: bool) -> Imported:
    found = Imported(software, words={"stack": STACK}, model=model or _named(said))
    axes = {name.removeprefix("parallelism."): value for name, value in said.items() if name.startswith("parallelism.")}
    found.degrees(
        tp=integer(axes, "tensor_parallel_degree"),
        pp=integer(axes, "pipeline_parallel_degree"),
        cp=integer(axes, "context_parallel_degree"),
        ep=integer(axes, "expert_parallel_degree"),
    )
    layout = found.layout
    tp, cp, ep = (layout.get(name, 1) for name in ("tp", "cp", "ep"))
    if tp > 1 and axes.get("enable_sequence_parallel") is not False:
        layout["sequence_parallel"] = True
    etp = 1 if today else integer(axes, "expert_tensor_parallel_degree")
    if ep > 1 and etp != tp:
        layout["etp"] = etp
    if cp > 1:
        kind = "gather" if today else KINDS.get(str(axes.get("context_parallel_rotate_method", "allgather")), "gather")
        found.set(found.words, cp_kind=None if kind == "ring" else kind)
    _sharding(found, axes)
    _training(found, said)
    if layout.get("pp", 1) > 1:
        _pipeline(found, axes)
    if said.get("training.enable_cpu_offload") in (True, "True"):
        layout["offload"] = "parameters"
    _recompute(found, said)
    asynchronous = axes.get("enable_async_tensor_parallel") or said.get("compile.enable_async_tensor_parallel")
    if asynchronous and tp > 1:
        found.words["overlap_tp"] = "async"
    components = said.get("compile.components", ["model", "loss"])
    if said.get("compile.enable") not in (True, "True") or "model" not in components:
        found.words["fused_elementwise"] = False
    return found


def _named(said: Json) -> str | None:
    """The catalog's model that is meant, if it has one."""
    from lockstep.workload import names

    said_name, said_flavor = said.get("model.name"), said.get("model.flavor")
    for name, one in flavors().items():
        if (one.model, one.flavor) == (said_name, said_flavor) or (one.config or "") == said.get("config"):
            return name
    wanted = str(said_name) if said_flavor == UNNAMED else f"{said_name}-{said_flavor}".lower()
    return wanted if wanted in names() else None


def _sharding(found: Imported, axes: Mapping[str, Any]) -> None:
    """ZeRO and HSDP: with no stage of its own, DDP."""
    copies, sharded = integer(axes, "data_parallel_replicate_degree"), integer(axes, "data_parallel_shard_degree", -1)
    cp = found.layout.get("cp", 1)
    if sharded == 1 and cp == 1:
        return
    reshard = axes.get("fsdp_reshard_after_forward", "default")
    staged = found.layout.get("pp", 1) > 1
    found.layout["zero"] = 2 if reshard == "never" or (reshard == "default" and staged) else 3
    if copies > 1:
        found.layout["shard"] = sharded * cp if sharded > 0 else lambda devices: found.replicas(devices) // copies * cp


def _training(found: Imported, said: Json) -> None:
    local, batch = integer(said, "training.local_batch_size", 8), integer(said, "training.global_batch_size", -1)
    staged = found.layout.get("pp", 1) > 1
    found.layout["micro_batch"] = integer(said, "parallelism.pipeline_parallel_microbatch_size") if staged else local
    found.words["batch"] = batch if batch > 0 else lambda devices: local * found.replicas(devices)
    found.words["seq"] = integer(said, "training.seq_len", 2048)
    converters = " ".join(map(str, said.get("model.converters", [])))
    found.words["dtype"] = "mxfp8" if "mx" in converters else "fp8" if "float8" in converters else "bf16"
    recipe = next((value for name, value in said.items() if name.endswith("float8.recipe_name")), None)
    found.set(found.words, fp8_scaling="rows" if recipe == "rowwise" and "float8" in converters else None)
    if said.get("training.dtype") == "bfloat16":
        found.unread.append(WHOLE_BF16)
    optimizer = str(said.get("optimizer.name", "AdamW")).lower()
    if optimizer in ("adam", "adamw"):
        found.set(found.words, optimizer="adam" if optimizer == "adam" else None)
    else:
        found.unread.append(f"optimizer.name={optimizer}")


def _pipeline(found: Imported, axes: Mapping[str, Any]) -> None:
    layout, pp = found.layout, found.layout["pp"]
    said = str(axes.get("pipeline_parallel_schedule", "1F1B"))
    if said not in NAMED:
        found.unread.append(f"pipeline_parallel_schedule={said}")
    schedule = NAMED.get(said, "1f1b")
    parts = axes.get("module_fqns_per_model_part")
    per_stage, layers = integer(axes, "pipeline_parallel_layers_per_stage", 0), _layers(found.model)
    if isinstance(parts, list):
        layout["stages"] = ",".join(str(sum(str(one).startswith("layers.") for one in part)) for part in parts)
        layout["vpp"] = len(parts) // pp
    elif per_stage and layers:
        layout["vpp"] = layers // (pp * per_stage)
    elif schedule not in ("1f1b", "gpipe"):
        layout["vpp"] = 2
    if schedule != ("interleaved" if layout.get("vpp", 1) > 1 else "1f1b"):
        layout["schedule"] = schedule


def _layers(model: str | Model | None) -> int:
    from lockstep.workload import model as find

    found = find(model) if isinstance(model, str) else model
    return found.layers if isinstance(found, Transformer) else 0


def _recompute(found: Imported, said: Json) -> None:
    mode = said.get("activation_checkpoint.mode", "selective")
    if mode == "full":
        found.layout["recompute"] = "full"
    elif mode == "selective":
        found.layout["recompute"] = "selective"
        found.words["recompute_modules"] = "op"
    elif mode != "none":
        found.unread.append(f"activation_checkpoint.mode={mode}")
