"""nanotron's YAML as a question and a layout; a Llama's `model_config` has Hugging Face's names, but is not read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockstep.planner.export.nanotron import ENGINES
from lockstep.planner.imports.imported import Imported, flat, integer
from lockstep.workload import Model

STACK = "nanotron"
NAMED = {word: schedule for schedule, word in ENGINES.items()}
UNREAD = ("parallelism.moe_layer_recompute",)


def nanotron(data: Mapping[str, Any], model: Model | None) -> Imported | None:
    """What a configuration says; None where it is something else."""
    if not isinstance(data.get("parallelism"), dict) or not isinstance(data.get("tokens"), dict):
        return None
    said, found = flat(data), Imported("nanotron's YAML", words={"stack": STACK}, model=model)
    axes = {name.removeprefix("parallelism."): value for name, value in said.items()}
    found.degrees(
        tp=integer(axes, "tp"),
        pp=integer(axes, "pp"),
        cp=integer(axes, "context_parallel_size"),
        ep=integer(axes, "expert_parallel_size"),
    )
    layout, words, dp = found.layout, found.words, integer(axes, "dp")
    if layout.get("tp", 1) > 1:
        layout |= {"sequence_parallel": True} if str(axes.get("tp_mode")).upper() == "REDUCE_SCATTER" else {}
        words["overlap_tp"] = "gradients" if axes.get("tp_linear_async_communication") is True else "none"
    # Without an engine it is afab (parallelism_config.py).
    schedule = NAMED.get(str(axes.get("pp_engine", "afab")), "1f1b")
    if layout.get("pp", 1) > 1 and schedule != "1f1b":
        layout["schedule"] = schedule
    if axes.get("recompute_layer") is True:
        layout["recompute"] = "full"
    if integer(said, "optimizer.zero_stage", 0):
        layout["zero"] = 1
    micro, steps = integer(said, "tokens.micro_batch_size"), integer(said, "tokens.batch_accumulation_per_replica")
    layout["micro_batch"] = micro
    words |= {"batch": dp * micro * steps, "gpus": dp * found.dense_ranks}
    found.set(words, seq=integer(said, "tokens.sequence_length", 0) or None)
    dtype = {"bfloat16": "bf16", "float16": "fp16"}.get(str(said.get("model.dtype", "bfloat16")))
    found.set(words, dtype=dtype)
    if said.get("optimizer.accumulate_grad_in_fp32") is False:
        words["gradient_bytes"] = 2
    found.missing(UNREAD, said)
    return found
