"""Flags of the verbs about programs: the link, the picture, and what a pipeline or a collective is."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.cli.completing import algorithms, clusters, ops
from lockstep.cli.options import Options, argument, required, switch, text
from lockstep.errors import BadInput
from lockstep.files import writable, writing

if TYPE_CHECKING:
    from collections.abc import Callable

_LINK = "Link: --latency and --bandwidth, or --cluster"
LINK: Options = {
    "latency": text("--latency", "T", "Latency per message, e.g. 5us.", panel=_LINK),
    "bandwidth": text("--bandwidth", "R", "Bandwidth in each direction, e.g. 25GB/s or 400Gbit/s.", panel=_LINK),
    "cluster": text(
        ("--cluster", "-c"),
        "C",
        "Cluster: catalog name with nodes, e.g. dgx-h100:4, or a YAML file.",
        panel=_LINK,
        names=clusters,
    ),
}
PLOT: Options = {"plot": text("--plot", "FILE", "Also draw a picture: .png, .svg or .pdf.")}
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


def given(words: dict[str, object]) -> dict[str, object]:
    """The words without those that were not given, so that the library's own defaults hold."""
    return {name: value for name, value in words.items() if value is not None}


def draw(plot: str | None, picture: Callable[[Path], None]) -> None:
    """Writes the picture when one is asked for; a wrong name or place is bad input at `--plot`."""
    path = picture_path(plot)
    if path is None:
        return
    with writing(path, "--plot"):
        picture(path)


def picture_path(plot: str | None) -> Path | None:
    """Where the picture goes; verbs that take long ask before they begin. Raises BadInput at `--plot`."""
    if plot is None:
        return None
    path = Path(plot)
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise BadInput(f"{path.name!r} must end in .png, .svg or .pdf", "--plot")
    if find_spec("matplotlib") is None:
        raise BadInput("pictures need matplotlib: pip install 'lockstep[plot]'", "--plot")
    if "MPLBACKEND" in os.environ:
        _check_backend()
    return writable(path, "--plot")


def _check_backend() -> None:
    """matplotlib, when it is first imported, refuses a backend that it does not know. Raises BadInput."""
    try:
        import_module("matplotlib")
    except ValueError as error:
        raise BadInput(str(error), "MPLBACKEND") from None


def pairs(settings: list[str], where: str = "--set") -> dict[str, Any]:
    """Keys and values of `--set key=value`, or of another flag that takes them."""
    pairs: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = (part.strip() for part in setting.partition("="))
        if not equals or not key or not value:
            raise BadInput(f"{setting[:60]!r} must be written KEY=VALUE", where)
        if key in pairs:
            raise BadInput(f"{key[:60]} is given twice", where)
        pairs[key] = value
    return pairs
