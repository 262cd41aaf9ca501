"""An MLPerf training log (`:::MLLOG` lines) as a question and a layout.

Keys are those of mlperf-logging 4.1 (mllog/constants.py): batch and longest sequence, and in logs of rounds that ask
for them the micro-batch, the degrees and the narrowest formats. The benchmark names the model. It does not say how
states are sharded: give --zero and what else is known.
"""

from __future__ import annotations

import json
import re

from lockstep.planner.imports.imported import Imported, integer
from lockstep.types.plain import Json
from lockstep.workload import Model

LINE = re.compile(r":::MLLOG\s+(\{.*\})")
MODELS = {
    "llama31_8b": "llama3-8b",
    "llama31_405b": "llama3-405b",
    "llama2_70b_lora": "llama2-70b",
    "gpt3": "gpt3-175b",
    "bert": "bert-large",
    "deepseekv3_671b": "deepseek-v3",
}
"""Benchmarks whose model the catalog has."""
FORMATS = {"bfloat16": "bf16", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8", "mxfp8": "mxfp8", "nvfp4": "nvfp4"}


def mlperf(text: str, name: str, model: Model | None) -> Imported | None:
    """What a log says; None where it has no such line."""
    if ":::MLLOG" not in text:
        return None
    said = _values(text)
    found = Imported("MLPerf training log", model=model or MODELS.get(str(said.get("submission_benchmark"))))
    found.degrees(
        tp=integer(said, "tensor_parallelism"),
        pp=integer(said, "pipeline_parallelism"),
        cp=integer(said, "context_parallelism"),
        ep=integer(said, "expert_parallelism"),
    )
    batch, micro = integer(said, "global_batch_size", 0), integer(said, "micro_batch_size", 0)
    steps = integer(said, "gradient_accumulation_steps", 0)
    found.set(found.layout, micro_batch=micro or None)
    found.set(found.words, batch=batch or None, seq=integer(said, "max_sequence_length", 0) or None)
    if batch and micro and steps:
        found.words["gpus"] = batch // (micro * steps) * found.dense_ranks
    found.set(found.words, dtype=FORMATS.get(str(said.get("lowest_numerical_precision_in_linear"))))
    rank = integer(said, "lora_rank", 0)
    if rank:
        # The reference trains adapters on attention (qkv and output projection).
        found.words["train"] = f"lora:r={rank},targets=attention"
    return found


def _values(text: str) -> Json:
    """The first value of every key."""
    found: Json = {}
    for line in LINE.findall(text):
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(event, dict) and event.get("value") is not None:
            found.setdefault(str(event.get("key")), event["value"])
    return found
