"""How states are sharded: FSDP's words of the Trainer, and DeepSpeed's configuration inside or beside a file.

A configuration of DeepSpeed is a section of the file, a file beside it, or one that the software brings: its words are
read by the strict reader of DeepSpeed and listed with the word before them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

from lockstep.decide.planner.imports.accelerate import accelerate, prepared
from lockstep.decide.planner.imports.beside import beside
from lockstep.decide.planner.imports.deepspeed import BATCH, deepspeed, spelled_out
from lockstep.decide.planner.imports.formats import format_of
from lockstep.decide.planner.imports.imported import Followed, Imported
from lockstep.decide.planner.imports.said import Said
from lockstep.decide.planner.imports.text import Text
from lockstep.describe.workload import Model

SECTION = "deepspeed"
LAUNCHED = "launcher.config_file"
TAKEN = ("gather_limits", "overlap", "gradient_bytes", "reduce_bytes", "optimizer", "sharding")
"""Settings of DeepSpeed's configuration; its batch and precision are the Trainer's."""
STRATEGIES = {"full_shard": 3, "hybrid_shard": 3, "shard_grad_op": 2, "hybrid_shard_zero2": 2, "no_shard": 0,
              "true": 3, "false": 2, "1": 3, "2": 2, "3": 0, "4": 3, "5": 2}  # fmt: skip
"""Of FSDP, by name and as Accelerate numbers them, to the ZeRO stage."""
HYBRID = ("hybrid_shard", "hybrid_shard_zero2", "4", "5")
OTHERS = ("auto_wrap", "offload", "fully_shard")


def sharded(found: Imported, said: Said, model: Model | None, implied: bool = False) -> str:
    """What shards the states: deepspeed, fsdp or nothing; sets their settings. Raises BadInput for both.

    FSDP is on where `fsdp` says so, or with its settings alone where that is `implied`.
    """
    by = _sharded(found, said, model, implied and any(word.startswith("fsdp_config.") for word in said.values))
    if by == "fsdp":
        found.words["reduce_bytes"] = 2
    kept = ("zero",) if "offload" not in found.layout else ()
    with_others(found, *kept, "gather_limits", "reduce_bytes", "overlap")
    return by


def with_others(found: Imported, *names: str) -> None:
    """Lets settings hold where there are ranks to share with: on one device the software keeps all states there."""
    for words in (found.layout, found.words):
        words |= {name: _shared(found, words[name]) for name in names if name in words}


def _shared(found: Imported, value: object) -> Followed:
    return lambda devices: value if found.replicas(devices) * found.layout.get("cp", 1) > 1 else None


def _sharded(found: Imported, said: Said, model: Model | None, implied: bool) -> str:
    inside = any(word.startswith(f"{SECTION}.") for word in said.values)
    named = said[SECTION]
    fully = _fsdp_options(said) or ["full_shard"] * implied
    if (inside or named) and fully:
        raise said.refuse("fsdp", "is on, and so is deepspeed: the Trainer accepts only one of them")
    if inside or named:
        return _deepspeed(found, said, model, named)
    if not fully:
        return _launched(found, said) if said[LAUNCHED] else ""
    _fsdp(found, said, fully)
    return "fsdp"


def _launched(found: Imported, said: Said) -> str:
    """What Accelerate's configuration says that starts the run; where it lies elsewhere, that is said."""
    text = beside(said.text, said[LAUNCHED], "yaml")
    if text is None:
        said.leave(LAUNCHED, "states sharded as another file says, which does not lie beside this one")
        return ""
    inner = Said(format_of("accelerate"), prepared(text), said.accepted)
    read = accelerate(inner, LAUNCHED, None)
    found.layout |= {name: value for name, value in read.layout.items() if name != "micro_batch"}
    found.words |= {name: value for name, value in read.words.items() if name in (*TAKEN, "cp_kind", "gpus")}
    said.inner[LAUNCHED] = tuple(replace(row, word=f"{LAUNCHED}.{row.word}") for row in inner.rows())
    return {"FSDP": "fsdp", "DEEPSPEED": "deepspeed"}.get(inner["distributed_type"], "")


def _fsdp_options(said: Said) -> list[str]:
    """The settings of `fsdp`, in lower case; none where it is off."""
    given = said["fsdp"]
    if given in (None, False, "", ()) or str(given).lower() in ("false", "none"):
        return []
    if given is True or str(given).lower() == "true":
        return ["full_shard"]
    return str(given).lower().split() if isinstance(given, str) else [str(one).lower() for one in given]


def _setting(said: Said, name: str) -> tuple[str, object]:
    """The setting of `fsdp_config` for a setting, with or without `fsdp_`, and its value."""
    words = (f"fsdp_config.fsdp_{name}", f"fsdp_config.{name}")
    values = [(word, said[word]) for word in words if word in said]
    return values[0] if values else (words[1], None)


def _fsdp(found: Imported, said: Said, options: list[str]) -> None:
    if said["fsdp_config"]:
        said.leave("fsdp_config", "settings of FSDP that stand in another file")
    word, strategy = "fsdp", next((one for one in options if one in STRATEGIES), "full_shard")
    for name in ("sharding_strategy", "reshard_after_forward"):
        where, value = _setting(said, name)
        if value is not None and str(value).lower() in STRATEGIES:
            word, strategy = where, str(value).lower()
    if strategy in HYBRID:
        said.leave(word, "sharding among the ranks of a node alone; among all is taken")
    for one in options:
        if one not in STRATEGIES and one not in OTHERS:
            raise said.refuse("fsdp", f"has no option {one[:40]}")
    found.set(found.layout, zero=STRATEGIES[strategy] or None)
    offloaded = [_setting(said, name)[1] for name in ("offload_params", "cpu_offload")]
    if "offload" in options or any(offloaded):
        found.layout["offload"] = "parameters"
    if _setting(said, "activation_checkpointing")[1]:
        found.layout["recompute"] = "full"


def _deepspeed(found: Imported, said: Said, model: Model | None, named: str | None) -> str:
    """Reads DeepSpeed's configuration; where it cannot be read, that is said."""
    text = _inside(said) if not named else beside(said.text, named)
    shown = text is not None
    if text is None and named is not None:
        text = _brought(said, named)
    if text is None:
        said.leave(SECTION, "states sharded as another file says, which does not lie beside this one")
        return "deepspeed"
    inner = Said(format_of("deepspeed"), spelled_out(text), said.accepted)
    read = deepspeed(inner, SECTION, model)
    for word in BATCH[1:]:
        mine = {BATCH[1]: "per_device_train_batch_size", BATCH[2]: "gradient_accumulation_steps"}[word]
        ours = said[mine] if mine in said.format.read else None
        if inner.values.get(word) not in (None, "auto", ours):
            inner.contradiction(word, f"the Trainer's {mine} counts")
    found.layout |= {name: value for name, value in read.layout.items() if name in ("zero", "offload", "tp", "pp")}
    found.words |= {name: value for name, value in read.words.items() if name in TAKEN}
    if "optimizer" not in inner and "optimizer.type" not in inner:
        found.words.pop("optimizer", None)
    if shown:
        said.inner[SECTION] = tuple(replace(row, word=f"{SECTION}.{row.word}") for row in inner.rows())
    return "deepspeed"


def _inside(said: Said) -> Text:
    """The section as a text of its own."""
    start, text = f"{SECTION}.", said.text
    words = {word.removeprefix(start): value for word, value in text.words.items() if word.startswith(start)}
    lines = {word.removeprefix(start): line for word, line in text.lines.items() if word.startswith(start)}
    return replace(text, words=words, lines=lines, repeated={})


def _brought(said: Said, named: str) -> Text | None:
    """A configuration that the software brings under that name."""
    known = said.format.files.get(PurePosixPath(named).name)
    if known is None:
        return None
    stage, *options = known.split()
    zero: dict[str, object] = {"zero_optimization.stage": int(stage)}
    zero["zero_optimization.overlap_comm"] = "overlap" in options
    for part, word in (("optimizer", "optimizer"), ("param", "parameters")):
        if word in options or (part == "optimizer" and "parameters" in options):
            zero[f"zero_optimization.offload_{part}.device"] = "cpu"
    if stage == "3":
        for limit in ("prefetch_bucket_size", "param_persistence_threshold"):
            zero[f"zero_optimization.stage3_{limit}"] = "auto"
        zero["zero_optimization.reduce_bucket_size"] = "auto"
    return Text(said.text.file, "json", {**zero, "bf16.enabled": "auto"})
