"""Writes the tables of argument names of `lockstep export`: `python tools/argument_tables.py TARGET UNPACKED`.

UNPACKED is the folder into which the release of that software was unpacked; what each table is read from stands in
SOURCES. Config classes are read as text; only Megatron-LM's parser is built, which needs PyTorch and Triton.
A name has the type that the software gives it: int, float, str, bool, flag (no value), list, dict, any, or its choices.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import enum
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "src/lockstep/decide/planner/export/arguments"
PLAIN = {"int": "int", "float": "float", "str": "str", "bool": "bool", "list": "list", "tuple": "list", "dict": "dict"}
SIMPLE = {"Path": "str", "List": "list", "Tuple": "list", "Dict": "dict", "dtype": "str"}
TITAN = "torchtitan/config/job_config.py"
TODAY = "torchtitan/config/configs.py"
MODEL = ("megatron/bridge/models/gpt_provider.py", "megatron/core/transformer/transformer_config.py")
CORE = ("megatron/core/model_parallel_config.py", "megatron/bridge/models/transformer_config.py")
BRIDGE = "megatron/bridge/training/config.py"
TRAINING = "megatron/training/config/training_config.py"
DDP = ("megatron/core/distributed/distributed_data_parallel_config.py",)
SOURCES: dict[str, tuple[str, tuple[tuple[str, str, tuple[str, ...]], ...]]] = {
    "torchtitan": (
        "torchtitan v0.2.2",
        tuple(
            (name, kind, (TITAN,))
            for name, kind in {
                "job": "Job", "model": "Model", "optimizer": "Optimizer", "lr_scheduler": "LRScheduler",
                "training": "Training", "parallelism": "Parallelism", "checkpoint": "Checkpoint",
                "activation_checkpoint": "ActivationCheckpoint", "compile": "Compile", "comm": "Comm", "debug": "Debug",
            }.items()
        ),
    ),
    "torchtitan-cli": (
        "torchtitan v0.3.0",
        (
            *((name, f"{name.capitalize()}Config", (TODAY,)) for name in ("training", "parallelism", "compile")),
            *((name, f"{name.capitalize()}Config", (TODAY,)) for name in ("comm", "debug")),
        ),
    ),
    "bridge": (
        "Megatron-Bridge 0.6.2, Megatron Core 0.19",
        (
            ("model", "GPTModelProvider", (*MODEL, *CORE)),
            ("model", "MLATransformerConfig", (*MODEL[1:], *CORE[:1])),
            ("train", "TrainingConfig", (BRIDGE, TRAINING)),
            ("ddp", "DistributedDataParallelConfig", (BRIDGE, *DDP)),
            ("optimizer", "OptimizerConfig", (BRIDGE, "megatron/core/optimizer/optimizer_config.py")),
            ("dataset", "GPTDatasetConfig", (
                BRIDGE, "megatron/core/datasets/gpt_dataset.py",
                "megatron/core/datasets/blended_megatron_dataset_config.py",
            )),
            ("checkpoint", "CheckpointConfig", (BRIDGE, TRAINING)),
            ("dist", "DistributedInitConfig", (BRIDGE, "megatron/training/config/common_config.py")),
            ("comm_overlap", "CommOverlapConfig", ("megatron/bridge/training/comm_overlap.py",)),
            ("mixed_precision", "MixedPrecisionConfig", ("megatron/bridge/training/mixed_precision.py",)),
        ),
    ),
    "deepspeed": (
        "DeepSpeed 0.19.8",
        (
            ("zero_optimization", "DeepSpeedZeroConfig", ("deepspeed/runtime/zero/config.py",)),
            ("zero_optimization.offload_param", "DeepSpeedZeroOffloadParamConfig", (
                "deepspeed/runtime/zero/offload_config.py",)),
            ("zero_optimization.offload_optimizer", "DeepSpeedZeroOffloadOptimizerConfig", (
                "deepspeed/runtime/zero/offload_config.py",)),
            ("tensor_parallel", "TPTrainingConfig", ("deepspeed/runtime/tensor_parallel/config.py",)),
            ("fp16", "DeepSpeedFP16Config", ("deepspeed/runtime/precision_config.py",)),
            ("bf16", "DeepSpeedBF16Config", ("deepspeed/runtime/precision_config.py",)),
        ),
    ),
    "accelerate": (
        "accelerate 1.15.0",
        (
            ("", "BaseConfig", ("accelerate/commands/config/config_args.py",)),
            ("", "ClusterConfig", ("accelerate/commands/config/config_args.py",)),
        ),
    ),
}  # fmt: skip


def kind_of(node: ast.expr | None) -> str | list[str]:
    """The type in an annotation."""
    if isinstance(node, ast.Subscript):
        name = ast.unparse(node.value).split(".")[-1]
        inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name == "Literal":
            return [str(ast.literal_eval(one)) for one in inside]
        if name in ("Optional", "Union", "Annotated"):
            return together([kind_of(one) for one in (inside[:1] if name == "Annotated" else inside)])
        return PLAIN.get(name) or SIMPLE.get(name, "any")
    if isinstance(node, ast.BinOp):
        return together([kind_of(node.left), kind_of(node.right)])
    name = ast.unparse(node).split(".")[-1] if node else "any"
    return PLAIN.get(name) or SIMPLE.get(name, "none" if name == "None" else "any")


def together(kinds: list[str | list[str]]) -> str | list[str]:
    """A type of a union; int where it may be a float too."""
    some = [kind for kind in kinds if kind != "none"]
    if {"int", "float"} == {str(kind) for kind in some}:
        return "float"
    return some[0] if len({str(kind) for kind in some}) == 1 else "any"


def fields(wanted: str, files: list[Path]) -> Iterator[tuple[str, str | list[str]]]:
    """Fields of a class, those of its bases first; a base of the same name is in a later file."""
    for place, file in enumerate(files):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name == wanted:
                for base in node.bases:
                    name = ast.unparse(base).split(".")[-1].split("[")[0]
                    said = name.removeprefix("MCore").removeprefix("MTrain")
                    rest = files[place + 1 :] if said == wanted else files[place:]
                    yield from fields(said, rest)
                for one in node.body:
                    if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                        yield named(one), kind_of(one.annotation)
                return


def named(field: ast.AnnAssign) -> str:
    """The name of a field, or what files call it."""
    value = field.value
    for word in value.keywords if isinstance(value, ast.Call) else ():
        if word.arg == "alias" and isinstance(word.value, ast.Constant):
            return str(word.value.value)
    return ast.unparse(field.target)


def constants(file: Path) -> Iterator[tuple[str, str]]:
    """Texts that a module of constants holds, by name."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield ast.unparse(node.targets[0]), node.value.value


def keys_read(file: Path, known: dict[str, str]) -> Iterator[str]:
    """Keys that a module looks up in a dictionary; `known` are the texts of its constants."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        looked: list[ast.expr] = []
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("get_scalar_param", "param_dict.get"):
            looked = node.args[1:2] if ast.unparse(node.func) == "get_scalar_param" else node.args[:1]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In):
            looked = [node.left]
        elif isinstance(node, ast.FunctionDef) and node.name == "get_pipeline_config":
            defaults = [one for one in ast.walk(node) if isinstance(one, ast.Dict)]
            keys = [key for one in defaults for key in one.keys]
            yield from (f"pipeline.{key.value}" for key in keys if isinstance(key, ast.Constant))
        if isinstance(node, ast.FunctionDef):
            looked = node.args.defaults
        for one in looked:
            text = one.value if isinstance(one, ast.Constant) else known.get(ast.unparse(one))
            if isinstance(text, str):
                yield text


def deepspeed_keys(runtime: Path) -> dict[str, str]:
    """Keys that its config.py looks up: of the whole file, of `optimizer` and of `data_types`."""
    known = dict(constants(runtime / "constants.py"))
    found = dict.fromkeys(keys_read(runtime / "config.py", known), "any")
    for section, inside in (("optimizer", ("type", "params")), ("data_types", ("grad_accum_dtype", "param_dtype"))):
        for name in inside:
            found[f"{section}.{name}"] = "any"
    found |= dict.fromkeys(("optimizer", "data_types", "pipeline", "tensor_parallel", "zero_optimization"), "any")
    checkpointing = constants(runtime / "activation_checkpointing/config.py")
    kept = {text for name, text in checkpointing if name.startswith("ACT_CHKPT_") and text.isidentifier()}
    return found | dict.fromkeys((f"activation_checkpointing.{text}" for text in kept), "any")


def parsed(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str | list[str]]]:
    """Every option of a parser, without its dashes."""
    for action in parser._actions:
        for option in action.option_strings:
            if option.startswith("--"):
                yield option[2:], kind_of_action(action)


def kind_of_action(action: argparse.Action) -> str | list[str]:
    if action.nargs == 0:
        return "flag"
    if action.choices:
        return [str(one.name if isinstance(one, enum.Enum) else one) for one in action.choices]
    kind = {int: "int", float: "float", str: "str", None: "str", bool: "bool"}.get(action.type, "any")  # type: ignore[call-overload]
    return f"{kind}+" if action.nargs in ("+", "*") or isinstance(action.nargs, int) else kind


def names(target: str, where: Path) -> tuple[str, str, dict[str, Any]]:
    """The version, where the names are from, and the names."""
    if target == "megatron":
        sys.path.insert(0, str(where))
        from megatron.training.arguments import add_megatron_arguments

        parser = add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))
        said = "add_megatron_arguments of megatron/training/arguments.py, in the wheel megatron_core 0.19.2"
        return "Megatron-LM, Megatron Core 0.19", said, dict(parsed(parser))
    version, parts = SOURCES[target]
    found: dict[str, Any] = {}
    for section, kind, files in parts:
        for name, one in fields(kind, [where / file for file in files]):
            found[f"{section}.{name}" if section else name] = one
    used = ", ".join(dict.fromkeys(file for _, _, files in parts for file in files))
    if target == "deepspeed":
        found = deepspeed_keys(where / "deepspeed/runtime") | found
        used += ", the keys looked up in deepspeed/runtime/config.py"
    if target == "torchtitan-cli":
        found |= {"module": "str", "config": "str"}
        used += ", --module and --config of torchtitan/config/manager.py"
    if target == "accelerate":
        sys.path.insert(0, str(where))
        from accelerate.commands.launch import launch_command_parser

        options = dict(parsed(launch_command_parser()))
        for prefix, section in (("fsdp_", "fsdp_config"), ("parallelism_config_", "parallelism_config")):
            found |= {f"{section}.{name}": kind for name, kind in options.items() if name.startswith(prefix)}
        used += ", the options of accelerate/commands/launch.py"
    return version, used, found


def main(target: str, where: str) -> None:
    """Writes the table of one target."""
    version, source, found = names(target, Path(where))
    lines = [f"version = {json.dumps(version)}", f"source = {json.dumps(source)}"]
    lines += [f"read = {datetime.date.today()}", "", "[names]"]
    lines += [f"{json.dumps(name)} = {json.dumps(kind)}" for name, kind in sorted(found.items())]
    (FOLDER / f"{target}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
