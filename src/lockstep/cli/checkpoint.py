"""`lockstep checkpoint`: how often to save, and what failures cost."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.completing import clusters, optimizers
from lockstep.cli.operation_options import LIGHTER
from lockstep.cli.options import MODEL_IF_ANY, switch, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import PLOT, SEED, draw, given, picture_path

_FAILURES = "Failures: one of these"
_SHARDS = "A sharded checkpoint, of --size or of a MODEL, instead of --write"
_CORRUPTION = "Silent corruption, beside the failures"
_NODES = "Spare nodes and repairs (default: a replacement is always there)"
_RUN = "The run"
WORDS = {
    "mtbf": text("--mtbf", "T", "Mean time between failures of the job.", panel=_FAILURES),
    "nodes": text("--nodes", "N", "Nodes of the job, with times of parts.", panel=_FAILURES),
    "devices": text("--devices", "N", "Devices of the job. (default: 8 for each of --nodes)", panel=_FAILURES),
    "device_mtbf": text("--device-mtbf", "T", "Of one device; times of parts add up to the job's.", panel=_FAILURES),
    "node_mtbf": text("--node-mtbf", "T", "Of one node.", panel=_FAILURES),
    "switch_mtbf": text("--switch-mtbf", "T", "Of one switch, each for 32 nodes.", panel=_FAILURES),
    "rack_mtbf": text("--rack-mtbf", "T", "Of one rack, which takes its 4 nodes with it.", panel=_FAILURES),
    "power_mtbf": text("--power-mtbf", "T", "Of the power of the whole job.", panel=_FAILURES),
    "software_mtbf": text("--software-mtbf", "T", "Of the software, which loses no node.", panel=_FAILURES),
    "cluster": text(
        ("--cluster", "-c"), "C", "Catalog name with nodes, as dgx-h100:64.", panel=_FAILURES, names=clusters
    ),
    "law": text("--law", "LAW", "exponential:mean=3h, weibull:mean=3h,shape=0.7, trace:gaps.csv.", panel=_FAILURES),
    "silent_mtbf": text("--silent-mtbf", "T", "Mean time between corruptions of the job.", panel=_CORRUPTION),
    "silent_delay": text("--silent-delay", "T", "Until one is noticed.", panel=_CORRUPTION),
    "repair": text("--repair", "T", "Mean time until a lost node is back.", panel=_NODES),
    "spares": text("--spares", "N", "Nodes that stand by. (default: 0)", panel=_NODES),
    "fewest_nodes": text("--fewest-nodes", "N", "Go on with so many, instead of waiting.", panel=_NODES),
    "grow": text("--grow", "W", "Take nodes back at a failure, checkpoint, at-once. (default: failure)", panel=_NODES),
    "replica_nodes": text("--replica-nodes", "N", "Nodes that leave together. (default: 1)", panel=_NODES),
    "replaced": text("--replaced", "FRAC", "Share of the failures that lose a node. (default: 1)", panel=_NODES),
    "write": text("--write", "T", "One checkpoint; run:last is what one took in a kept run of train."),
    "restart": text("--restart", "T", "From a noticed failure to work going on. (default: 0)"),
    "detection": text("--detection", "T", "Until a failure is noticed. (default: 0)"),
    "async_frac": text("--async", "FRAC", "Share of a write hidden behind work. (default: 0)"),
    "interval": text("--interval", "T", "Work between checkpoints. (default: the best)"),
    "size": text("--size", "S", "Bytes of the whole checkpoint.", panel=_SHARDS),
    "optimizer": text(
        "--optimizer", "O", "What a MODEL is trained with. (default: adamw)", panel=_SHARDS, names=optimizers
    ),
    "ranks": text("--ranks", "N", "Ranks that write at once. (default: the cluster's, or 1)", panel=_SHARDS),
    "rank_bandwidth": text("--rank-bandwidth", "R", "Of one rank.", panel=_SHARDS),
    "storage_bandwidth": text("--storage-bandwidth", "R", "Of the storage, for all.", panel=_SHARDS),
    **LIGHTER,
    "work": text("--work", "T", "Useful work. (default: 60 d, or 200 intervals if longer)", panel=_RUN),
    "simulate": switch("--simulate", "Monte Carlo with a 95 % interval.", False, _RUN),
    "campaigns": text("--campaigns", "N", "Simulated runs. (default: 1000)", panel=_RUN),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep checkpoint --mtbf 6h --write 5min --restart 10min --simulate --plot overhead.png\n\n"
        + "lockstep checkpoint llama3-405b --cluster dgx-h100:2048 --storage-bandwidth 2TB/s --restart 10min "
        + "--async 90%\n\n"
        + "lockstep checkpoint --cluster dgx-h100:128 --write 1min --restart 5min --repair 1d --spares 1 "
        + "--fewest-nodes 96 --simulate\n\n"
        + "lockstep checkpoint --mtbf 3h --write 60s --restart 10min --local-write 2s --local-restart 1min "
        + "--local-frac 90%\n\n"
        + "lockstep checkpoint llama3-405b --cluster dgx-h100:2048 --storage-bandwidth 2TB/s --restart 10min --copies 2"
    )(checkpoint)


@takes(MODEL_IF_ANY, WORDS, SEED, PLOT)
def checkpoint(as_json: bool, plot: str | None, **words: Any) -> None:
    """Find how often to save: Young, Daly, exact; what checkpoints and failures cost, simulated too."""
    from lockstep import api

    picture_path(plot)
    answer = api.checkpoint(**given(words))  # type: ignore[arg-type]

    def picture(path: Any) -> None:
        from lockstep.report.checkpoint_plot import plot_overhead

        plot_overhead(answer, path)

    draw(plot, picture)
    show(answer, as_json, "checkpoint")
