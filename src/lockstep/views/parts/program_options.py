"""Flags of the verbs about programs: the link, the picture, and what a pipeline or a collective is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.views.parts.completing import algorithms, clusters, ops
from lockstep.views.parts.options import Options, argument, required, switch, text

if TYPE_CHECKING:
    pass

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
