"""Arguments and flags that several verbs share, in the field's words, as groups that a `Command` takes.

Quantities stay text here: the library parses them once, with the flag's name as the place of an error.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_type_hints

import typer

from lockstep.verbs.words.shared import (
    LAYOUT_WORDS,
    FailureWords,
    LayoutWords,
    LighterWords,
    LinkWords,
    QuestionWords,
    RecipeWords,
    ServiceWords,
    Switch,
    WriteWords,
)
from lockstep.views.parts.completing import algorithms, clusters, models, ops, optimizers, schedules, starting

Options = Mapping[str, tuple[Any, Any]]
"""Keyword of the library -> (annotated type, default)."""


def text(
    flags: str | tuple[str, ...],
    metavar: str | None,
    words: str,
    default: Any = None,
    panel: str = "",
    names: Any = None,
) -> Any:
    """A flag that takes text; None when it is not given, so that the library's own default holds.

    A shell offers the `names` that begin as its word does.
    """
    shown = typer.Option(
        *((flags,) if isinstance(flags, str) else flags), metavar=metavar, help=words, rich_help_panel=panel or None,
        show_default=False, autocompletion=names and starting(names),
    )  # fmt: skip
    return Annotated[str | None if default is None else str, shown], default


def required(flags: tuple[str, ...], metavar: str, words: str, names: Any = None) -> Any:
    """A flag that must be given."""
    shown = typer.Option(*flags, metavar=metavar, help=words, autocompletion=names and starting(names))
    return Annotated[str, shown], inspect.Parameter.empty


def switch(flags: str, words: str, default: bool | None, panel: str = "") -> Any:
    """A flag that is on or off; None when it is not given and has no default here."""
    return Annotated[bool | None, typer.Option(flags, help=words, rich_help_panel=panel or None)], default


def argument(metavar: str, words: str, default: Any = inspect.Parameter.empty, names: Any = None) -> Any:
    """A positional argument; optional when it has a default."""
    kind = str if default is inspect.Parameter.empty else str | None
    complete = names and starting(names)
    return Annotated[
        kind, typer.Argument(metavar=metavar, help=words, show_default=False, autocompletion=complete)
    ], default


def flags(
    words: type, panel: str = "", *, only: Sequence[str] = (), without: Sequence[str] = (), **instead: str
) -> Options:
    """The flags of options that are declared in `lockstep.verbs.words.shared`; all of a class, or `only` some of it.

    `instead`: help texts of a verb of its own, by keyword.
    """
    found: dict[str, tuple[Any, Any]] = {}
    for name, kind in get_type_hints(words, localns={"Path": Any, "Cluster": Any}, include_extras=True).items():
        if name in without or (only and name not in only):
            continue
        declared, flag = kind.__metadata__[0], f"--{name.replace('_', '-')}"
        said = instead.get(name, declared.help)
        if isinstance(declared, Switch):
            both = flag if declared.default is None else f"{flag}/--no-{flag.removeprefix('--')}"
            found[name] = switch(both, said, declared.default, panel)
        else:
            written = (flag, declared.flag) if len(declared.flag) == 2 else declared.flag or flag
            found[name] = text(written, declared.metavar, said, panel=panel, names=NAMES.get(name))
    return found


NAMES = {"optimizer": optimizers, "schedule": schedules, "cluster": clusters}
"""What a shell offers for the value of an option."""
_MODEL_HELP = "Catalog name, or a path to a Hugging Face config.json or a YAML file."
_CLUSTER_HELP = "Catalog cluster with nodes, e.g. dgx-h100:64; one machine, e.g. rtx-4090:4; or a YAML file."

MODEL: Options = {"model": argument("MODEL", _MODEL_HELP, names=models)}
MODEL_IF_ANY: Options = {"model": argument("[MODEL]", _MODEL_HELP, None, models)}
CLUSTER: Options = {
    "cluster": required(("--cluster", "-c"), "C", _CLUSTER_HELP, names=clusters),
    **flags(QuestionWords, only=("gpus",)),
}
CLUSTER_IF_ANY: Options = {**CLUSTER, "cluster": text(("--cluster", "-c"), "C", _CLUSTER_HELP, names=clusters)}
BATCH = flags(QuestionWords, only=("batch", "batch_tokens", "seq"))
RECIPE = flags(RecipeWords, "Recipe")
LAYOUT = flags(LayoutWords, "Layout", only=LAYOUT_WORDS)
OFFLOAD = flags(LayoutWords, "Layout", only=("offload",))
LINK = flags(LinkWords, "Link: --latency and --bandwidth, or --cluster")
LIGHTER = flags(LighterWords, "Lighter checkpoints between full ones")
_TARGET = "Target: one of --tokens, --loss, --compute-optimal"
TARGET: Options = {
    "tokens": text("--tokens", "T", "Tokens to train on, e.g. 15T (images for a ConvNet).", panel=_TARGET),
    "loss": text("--loss", "L", "Train until this loss, in nats per token, predicted by a scaling law.", panel=_TARGET),
    "compute_optimal": switch(
        "--compute-optimal", "Train on the model's compute-optimal number of tokens.", False, _TARGET
    ),
    "scaling_law": text(
        "--scaling-law", "LAW", "Scaling law: besiroglu, hoffmann or kaplan. (default: besiroglu)", panel=_TARGET
    ),
    "critical_batch_tokens": text(
        "--critical-batch-tokens",
        "N",
        "Critical batch size; larger batches need more tokens for the same loss.",
        panel=_TARGET,
    ),
}
_FAILURES = "Failures and checkpoints (default: known values of the cluster)"
FAILURES = {**flags(FailureWords, _FAILURES, without=("replica_nodes",)), **flags(WriteWords, _FAILURES)}
SERVICE = flags(ServiceWords, "Step time in production")
RANKS: Options = {"ranks": required(("--ranks",), "N", "Number of ranks in the group.")}
RANKS_IF_ANY: Options = {"ranks": text("--ranks", "N", "Number of ranks in the group.")}
SIZE: Options = {"size": required(("--size",), "S", "Message size as nccl-tests counts it, e.g. 100MB.")}
SIZE_IF_ANY: Options = {"size": text("--size", "S", "Message size as nccl-tests counts it, e.g. 100MB.")}
OP: Options = {
    "op": argument(
        "OP",
        "Collective: all-reduce, all-gather, reduce-scatter, all-to-all, broadcast, reduce, scatter or gather.",
        names=ops,
    )
}
ALGORITHM: Options = {
    "algorithm": text(
        "--algorithm", "A", "Algorithm: one, several separated by commas, or all. (default: all)", names=algorithms
    )
}
_PASSES = "Times per micro-batch: one value, or one per stage, separated by commas"
PASSES: Options = {
    "chunks": text("--chunks", "V", "Model chunks per stage, if the schedule allows a choice."),
    "forward_s": text("--forward-s", "T", "Time of a stage's forward pass. (default: 1 s)", panel=_PASSES),
    "backward_s": text("--backward-s", "T", "Time of a stage's whole backward pass. (default: 2 s)", panel=_PASSES),
    "weight_s": text(
        "--weight-s", "T", "Time for weight gradients, part of --backward-s. (default: half of it)", panel=_PASSES
    ),
    "transfer_s": text(
        "--transfer-s", "T", "Time of a message between neighbouring stages. (default: 0)", panel=_PASSES
    ),
}
SEED: Options = {"seed": text("--seed", "N", "Random seed. (default: 0)", "0")}
RUNS: Options = {
    "root": text("--runs", "DIR", "Folder in which to keep the run; see lockstep runs. (default: $LOCKSTEP_RUNS)")
}
RANKS_HELP = "Processes to start. (default: those that torchrun or srun started, else 2)"
SWEEP: Options = {"sweep": switch("--sweep", "Compare all bucket sizes that make a difference.", False)}
_SET_HELP = "Value of one setting; may be repeated. --json without a name lists all settings."
SETTINGS: Options = {
    "settings": (Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=_SET_HELP)], None)
}
JSON: Options = {
    "as_json": (Annotated[bool, typer.Option("--json", help="Print one JSON object, in SI units.")], False)
}
CSV: Options = {"csv": text("--csv", "FILE", "Write a CSV file with one row for each value of a list or range.")}
CURVE: Options = {"plot": text("--plot", "FILE", "Draw the curve over a list or range: .png, .svg or .pdf.")}
PLOT: Options = {"plot": text("--plot", "FILE", "Also draw a picture: .png, .svg or .pdf.")}
