"""An MLPerf training log (`:::MLLOG` lines) as a question and a layout.

Its keys say batch and longest sequence, and in rounds that ask for them the micro-batch, the degrees and the narrowest
formats. The benchmark names the model. A log with a micro-batch does not say how states are sharded: its optimizer is
taken as sharded (ZeRO 1) and tensor parallelism as with sequence parallelism, as Megatron-LM's recipes have both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from lockstep.base.errors import BadInput
from lockstep.decide.planner.imports.formats import format_of
from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.said import Said
from lockstep.decide.planner.imports.text import Text
from lockstep.describe.workload import Model

SIGN = ":::MLLOG"
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
MOST_LETTERS = 20_000
"""Of an event."""
MOST_KEYS = 5_000
SHOWN = 60
"""Letters of an event that cannot be read."""


def mlperf_log(text: str, file: str) -> Text:
    """The keys of a log with their values. One that is given again with another value is repeated where it is read."""
    known = format_of("mlperf").kind_of
    words: dict[str, object] = {}
    lines: dict[str, int] = {}
    repeated: dict[str, str] = {}
    for line, key, value in _events(text):
        if key in words and words[key] != value and known(key)[0] in ("read", "left out"):
            repeated.setdefault(key, str(words[key]))
        if key not in words or key in repeated:
            words[key], lines[key] = value, line
        if len(words) > MOST_KEYS:
            raise BadInput(f"has more than the {MOST_KEYS} keys allowed", f"{file}:{line}")
    return Text(file, "log", words, lines, repeated, text)


def _events(text: str) -> Iterator[tuple[int, str, object]]:
    """Line, key and value of every event that has one; of one that cannot be read, its line and its beginning."""
    number, counted, at = 1, 0, text.find(SIGN)
    while at >= 0:
        number, counted, end = number + text.count("\n", counted, at), at, text.find("\n", at)
        end = len(text) if end < 0 else end
        try:
            event = json.loads(text[at + len(SIGN) : end]) if end - at < MOST_LETTERS else None
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            yield number, f"event in line {number}", text[at:end][:SHOWN]
        elif event.get("value") is not None:
            yield number, str(event.get("key")), event["value"]
        at = text.find(SIGN, end)


def mlperf(said: Said, name: str, model: Model | None) -> Imported:
    """What a log says."""
    benchmark = said["submission_benchmark"]
    if model is None and benchmark and benchmark not in MODELS:
        said.leave("submission_benchmark", "a model that the catalog does not have")
    found = Imported(said.format.name, model=model or MODELS.get(benchmark or ""))
    found.degrees(
        tp=said["tensor_parallelism"], pp=said["pipeline_parallelism"], cp=said["context_parallelism"],
        ep=said["expert_parallelism"],
    )  # fmt: skip
    batch, micro, steps = (
        said[key] for key in ("global_batch_size", "micro_batch_size", "gradient_accumulation_steps")
    )
    found.set(found.layout, micro_batch=micro)
    if micro:
        found.assume(zero=1, **({"sequence_parallel": True} if found.layout.get("tp", 1) > 1 else {}))
    found.set(found.words, batch=batch, seq=said["max_sequence_length"])
    if batch and micro and steps:
        if batch % (micro * steps):
            why = f"is {batch}, which micro-batches of {micro} in {steps} steps do not divide"
            raise said.refuse("global_batch_size", why)
        found.words["gpus"] = batch // (micro * steps) * found.dense_ranks
    narrow = said["lowest_numerical_precision_in_linear"]
    if narrow is not None and narrow.lower() not in FORMATS:
        said.leave("lowest_numerical_precision_in_linear", "a format that is not described")
    found.set(found.words, dtype=FORMATS.get((narrow or "").lower()))
    if said["lora_rank"]:
        # The reference trains adapters on attention (qkv and output projection).
        found.words["train"] = f"lora:r={said['lora_rank']},targets=attention"
    return found
