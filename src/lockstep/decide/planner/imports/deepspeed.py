"""DeepSpeed's JSON as a question and a layout.

It holds no sequence length and no number of ranks, and `"auto"` stands for what the Trainer is given: those are words
to give. Recomputation is decided in the model's code; a file that `export` wrote says it in its comment.
"""

from __future__ import annotations

from dataclasses import fields, replace

from lockstep.decide.planner.export.deepspeed import CHECKPOINTING, COMMENT, OPTIMIZERS
from lockstep.decide.planner.imports.formats import format_of
from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.said import NOTHING_BESIDE, Said
from lockstep.decide.planner.imports.text import Text
from lockstep.describe.workload import Model, Transformer
from lockstep.simulate.parallel.data.coordinator import Limits

STACK = "deepspeed"
NAMED = {word.lower(): name for name, word in OPTIMIZERS.items()}
WIRE_B = {"fp32": 4, "fp16": 2, "bf16": 2, "bfp16": 2}
BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


SECTION, STAGE3, BUCKET = "zero_optimization.", "stage3_", "reduce_bucket_size"
"""Fields of stage 3 are read with this beginning, which is their alias, and without it."""


def spelled_out(text: Text) -> Text:
    """The same settings, those of stage 3 each with the beginning `stage3_`."""
    fields_of_3 = {word.removeprefix(SECTION + STAGE3) for word in _known() if word.startswith(SECTION + STAGE3)}
    named = {
        word: f"{SECTION}{STAGE3}{word.removeprefix(SECTION)}" if word.removeprefix(SECTION) in fields_of_3 else word
        for word in text.words
    }
    if len(set(named.values())) < len(named):
        return text
    words = {named[word]: value for word, value in text.words.items()}
    return replace(text, words=words, lines={named.get(word, word): at for word, at in text.lines.items()})


def _known() -> tuple[str, ...]:
    found = format_of("deepspeed")
    return (*found.read, *found.left_out, *found.harmless)


def deepspeed(said: Said, name: str, model: Model | None) -> Imported:
    """What a configuration says."""
    found = Imported(said.format.name, words={"stack": STACK}, model=model)
    found.degrees(tp=said["tensor_parallel.autotp_size"] or 1, pp=said["pipeline.stages"] or 1)
    _batch(found, said)
    _zero(found, said)
    if found.layout.get("zero"):
        _limits(found, said, model)
    _formats(found, said)
    staged = found.layout.get("pp", 1) > 1 and said["pipeline.activation_checkpoint_interval"]
    if staged or CHECKPOINTING in str(said[COMMENT]):
        found.layout["recompute"] = "full"
    if "recompute" in found.layout and said["activation_checkpointing.cpu_checkpointing"]:
        found.words |= {"offload_layers": "all", "sharding": "deepspeed"}
    return found


def _batch(found: Imported, said: Said) -> None:
    """Batch and micro-batch; two of three numbers give the third on so many devices."""
    batch, micro, steps = (said[name] for name in BATCH)
    if micro:
        found.layout["micro_batch"] = micro
    elif batch and steps:
        found.layout["micro_batch"] = lambda devices: max(1, batch // (steps * found.replicas(devices)))
    if batch or micro:
        found.words["batch"] = batch or (lambda devices: micro * (steps or 1) * found.replicas(devices))
    if batch and micro and steps:
        if batch % (micro * steps):
            raise said.refuse(BATCH[0], f"is {batch}, which {micro} sequences in {steps} steps do not divide")
        found.words["gpus"] = batch // (micro * steps) * found.dense_ranks


def _zero(found: Imported, said: Said) -> None:
    stage = said["zero_optimization.stage"]
    if said.automatic("zero_optimization.stage"):
        raise said.refuse("zero_optimization.stage", "is left to other software; give --zero and write its number")
    found.set(found.layout, zero=stage or None)
    devices = {part: said[f"zero_optimization.offload_{part}.device"] for part in ("optimizer", "param")}
    for part, device in devices.items():
        if device == "nvme":
            said.leave(f"zero_optimization.offload_{part}.device", "states on local disks")
    if devices["param"] == "cpu" and stage != 3:
        # Stages 1 and 2 are given the setting of the optimizer alone (runtime/engine.py).
        said.noted["zero_optimization.offload_param.device"] = ("harmless", NOTHING_BESIDE)
        devices["param"] = "none"
    if devices["param"] == "cpu":
        found.layout["offload"] = "parameters"
    elif devices["optimizer"] == "cpu":
        found.layout["offload"] = "optimizer"
    # Its own default is to overlap with ZeRO 3 alone (runtime/zero/config.py).
    overlapped = said["zero_optimization.overlap_comm"]
    if not (stage == 3 if overlapped is None else overlapped):
        found.words["overlap"] = False


def _limits(found: Imported, said: Said, model: Model | None) -> None:
    """Limits of gathers and reductions; transformers fills in those that are "auto" (integrations/deepspeed.py)."""
    hidden = model.hidden if isinstance(model, Transformer) else None
    filled = {} if hidden is None else {
        "prefetch_bucket_size": int(0.9 * hidden * hidden), "param_persistence_threshold": 10 * hidden,
        BUCKET: hidden * hidden,
    }  # fmt: skip
    limits: dict[str, int] = {}
    for one in fields(Limits):
        if found.layout["zero"] < 3 and one.name != BUCKET:
            continue
        key = f"{SECTION}{one.name}" if one.name == BUCKET else f"{SECTION}{STAGE3}{one.name}"
        value = said[key]
        if said.automatic(key) and one.name not in filled:
            said.open(key, "left to the Trainer; the default of DeepSpeed is taken")
        if value is not None or (said.automatic(key) and one.name in filled):
            limits[one.name] = filled[one.name] if value is None else value
    changed = Limits(**limits).changed
    found.set(found.words, gather_limits=",".join(f"{name}={number}" for name, number in changed.items()) or None)


def _formats(found: Imported, said: Said) -> None:
    on = [one for one in ("bf16", "fp16") if said[f"{one}.enabled"] or said.automatic(f"{one}.enabled")]
    surely = [one for one in on if said[f"{one}.enabled"]]
    if len(surely) > 1:
        raise said.refuse("fp16.enabled", "is on, and so is bf16.enabled: DeepSpeed accepts only one of them")
    half = next(iter(surely or on), "fp32")
    found.words["dtype"] = half
    for one in on if not surely else ():
        said.open(f"{one}.enabled", f"left to the Trainer; {half} is taken")
    # What is not said is as the parameters are (runtime/engine.py, get_data_types and communication_data_type).
    gradient, wire = said["data_types.grad_accum_dtype"] or half, said["communication_data_type"] or half
    found.words["gradient_bytes"] = WIRE_B[gradient]
    if WIRE_B[wire] != WIRE_B[gradient]:
        found.words["reduce_bytes"] = WIRE_B[wire]
    optimizer = str(said["optimizer.type"]).lower()
    if optimizer not in NAMED:
        said.leave("optimizer.type", "an optimizer that is not described; AdamW is taken")
    found.set(found.words, optimizer=NAMED.get(optimizer) if optimizer != "adamw" else None)
