"""torchtitan's command line, and a function of Python that builds its configuration (from 0.3), as a question.

    --module llama3 --config llama3_8b --training.local-batch-size 2 activation-checkpoint:full

Options replace values of the configuration that they name, of which `torchtitan_configs.toml` has what counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.types.plain import Json
from lockstep.decide.planner.imports import torchtitan as older
from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.launchers import devices
from lockstep.decide.planner.imports.named import catalogued
from lockstep.decide.planner.imports.said import Said
from lockstep.decide.planner.imports.text import Text
from lockstep.describe.workload import Model

LEFT = "left"
"""What a configuration has besides, which is not modelled."""
POLICY = "activation_checkpoint"
SUBCOMMAND = re.compile(r"activation[-_]checkpoint:([\w-]+)")
ALONE = re.compile(r"^[ \t]*activation[-_]checkpoint:([\w-]+)[ \t]*$", re.MULTILINE)
"""The subcommand on a line of its own, behind lines of options."""
WITHOUT = ("no_", "no-")
DTYPES = {"Float8LinearConverter": "fp8", "MXFP8LinearConverter": "mxfp8", "NVFP4LinearConverter": "nvfp4"}
HALF = {"output", "lm_head", "router.gate"}
"""Layers that are priced in half precision where others run in a narrower format."""


def prepared(text: Text) -> Text:
    """The settings with underscores, switches that are off as such, and what is recomputed as a setting of its own."""
    words: Json = {}
    lines = dict(text.lines)
    repeated = {_named(word, True)[0]: value for word, value in text.repeated.items()}
    for word, value in text.words.items():
        value, policy = _without_policy(value)
        if policy:
            words[POLICY], lines[POLICY] = policy, lines.get(word, 1)
        if word == "launcher.arguments" and value in ([], None):
            continue
        name, value = _named(word, value) if text.shape == "command" else (word, value)
        lines.setdefault(name, lines.get(word, 1))
        if name in words and words[name] != value:
            repeated.setdefault(name, str(words[name]))
        words[name] = _listed(value)
    if text.shape == "python" and POLICY in words and words[POLICY] is None:
        words[POLICY] = "none"
    if POLICY not in words and (alone := ALONE.search(text.raw)) is not None:
        words[POLICY], lines[POLICY] = alone[1], text.raw.count("\n", 0, alone.start(1)) + 1
    return replace(text, words=words, lines=lines, repeated=repeated)


def _named(word: str, value: object) -> tuple[str, object]:
    """An option as the configuration has it: `parallelism.no-enable_x` is parallelism.enable_x, off."""
    section, dot, name = word.rpartition(".")
    if section == "launcher":
        return word, value
    name = name.replace("-", "_")
    off = bool(section) and name.startswith(WITHOUT) and value is True
    return f"{section.replace('-', '_')}{dot}{name[3:] if off else name}", False if off else value


def _without_policy(value: object) -> tuple[object, str]:
    """A value without the subcommand that stands behind it, and what that says."""
    parts = value if isinstance(value, list) else [value]
    found = next((match[1] for one in parts if (match := SUBCOMMAND.fullmatch(str(one)))), "")
    if not found:
        return value, ""
    rest = [one for one in parts if not SUBCOMMAND.fullmatch(str(one))]
    if isinstance(value, list):
        return (rest[0] if len(rest) == 1 else rest), found
    return True, found


def _listed(value: object) -> object:
    """A list that is written as JSON."""
    if type(value) is str and value.startswith("[") and len(value) < 100_000:
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return found if isinstance(found, list) else value
    return value


def torchtitan_options(said: Said, name: str, model: Model | None) -> Imported:
    """What a command line or a function says."""
    found = Imported(said.format.name, words={"stack": older.STACK})
    _configured(said)
    _model(found, said, model)
    older.degrees(found, said)
    layout = found.layout
    tp, ep = layout.get("tp", 1), layout.get("ep", 1)
    if tp > 1 and said[f"{older.AXES}enable_sequence_parallel"]:
        layout["sequence_parallel"] = True
    if ep > 1 and tp > 1:
        layout["etp"] = 1
    if layout.get("cp", 1) > 1:
        found.words["cp_kind"] = "gather"
    older.sharding(found, said)
    older.training(found, said)
    older.pipeline(found, said)
    _formats(found, said)
    _recompute(found, said)
    older.compiled(found, said)
    if said["compile.enable_async_tensor_parallel"] and tp > 1:
        found.words["overlap_tp"] = "async"
    if not said["training.disable_cuda_graphs"] and layout.get("pp", 1) == ep == 1 and _runs_whole(said):
        found.words["cuda_graphs"] = "step"
    _rest(found, said)
    if said.text.shape == "command":
        found.set(found.words, gpus=devices(said))
    return found


def _runs_whole(said: Said) -> bool:
    """Whether the file is a configuration, and no list of options to add to one."""
    return "config" in said or "python.function" in said or "training.disable_cuda_graphs" in said


def _configured(said: Said) -> None:
    """Values of the configuration that is named, where neither the file nor the class has others."""
    called = said["config"]
    if called is None:
        return
    known = _configurations().get(called)
    if known is None:
        said.leave("config", "values of a configuration that is not described; those of its classes are taken")
    for word, value in (known or {}).items():
        if word == LEFT:
            said.leave("config", value)
        else:
            said.values.setdefault(word, value)


@cache
def _configurations() -> Mapping[str, Json]:
    """What counts of torchtitan's own configurations, by name."""
    found: Mapping[str, Json] = shipped_table("lockstep.decide.planner.imports", "torchtitan_configs.toml")
    return found


def _model(found: Imported, said: Said, given: Model | None) -> None:
    """The model: by its flavor and module, by the name of the configuration, or by the folder of its files."""
    names = [one for one in _names(said) if older.catalog_name(one)]
    said_by = ("model_spec.0", "model_spec.flavor", "config", "python.function", "hf_assets_path")
    word = next((one for one in said_by if one in said), "module")
    folder = said["hf_assets_path"]
    if not names and folder and (name := catalogued(folder)) is not None:
        names = [name]
    older.named_model(found, said, given, names[0] if names else next(_names(said), ""), word)


def _names(said: Said) -> Iterator[str]:
    """What the model may be called, the surest first."""
    flavor = said["model_spec.0"] or said["model_spec.flavor"]
    module, function = said["module"], said["config"] or said["python.function"]
    if flavor and module:
        yield f"{module}-{flavor}"
    if function:
        yield function
        for end in range(len(function) - 1, 0, -1):
            if function[end] == "_":
                yield function[:end]


def _formats(found: Imported, said: Said) -> None:
    found.words["dtype"] = "bf16" if said["training.mixed_precision_param"] == "bfloat16" else "fp32"
    converters = list(map(str, said["model_spec.converters"]))
    for one in converters:
        section = f"model_spec.converters.{one}."
        if one in DTYPES:
            found.words["dtype"] = DTYPES[one]
        filtered = said.values.get(f"{section}filter_fqns")
        chosen = said.values.get(f"{section}fqns")
        if one not in DTYPES or len(converters) > 1 or chosen or (filtered and set(map(str, filtered)) - HALF):
            said.leave("model_spec.converters", "which layers converters change, and how")
        if one == "Float8LinearConverter":
            recipe = said.values.get(f"{section}recipe_name", "rowwise")
            found.set(found.words, fp8_scaling="rows" if str(recipe).startswith("rowwise") else None)


def _recompute(found: Imported, said: Said) -> None:
    policy = said[POLICY]
    if policy in ("SelectiveAC", "selective"):
        older.by_operation(found)
    elif policy in ("FullAC", "full"):
        found.layout["recompute"] = "full"
    elif policy != "none":
        said.leave(POLICY, "what a compiler recomputes in a budget of memory; none is taken")


def _rest(found: Imported, said: Said) -> None:
    """The optimizer and the loss."""
    if said["optimizer"] not in ("default_adamw", "OptimizersContainer"):
        said.leave("optimizer", "an optimizer that is not described; AdamW is taken")
    if said["loss"] == "ChunkedLossWrapper":
        found.words["cross_entropy"] = "chunked"
    elif said["loss"] not in (None, "CrossEntropyLoss"):
        said.leave("loss", "the loss")
