"""`lockstep checkpoint`: how often to save, and what failures cost."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.completing import clusters, optimizers
from lockstep.cli.operation_options import LIGHTER
from lockstep.cli.options import MODEL_IF_ANY, switch, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import PLOT, SEED, draw, given, picture_path

_FAILURES = "Failures: MTBF of the job or of its parts, a cluster, or a law"
_SHARDS = "Sharded checkpoint, sized by --size or by a MODEL, instead of --write"
_CORRUPTION = "Silent corruption, in addition to failures"
_NODES = "Spare nodes and repairs (default: a replacement is always available)"
_RUN = "The run"
WORDS = {
    "mtbf": text("--mtbf", "T", "Mean time between failures of the job.", panel=_FAILURES),
    "nodes": text("--nodes", "N", "Nodes of the job, for the MTBFs of parts.", panel=_FAILURES),
    "devices": text("--devices", "N", "Devices of the job. (default: 8 for each of --nodes)", panel=_FAILURES),
    "device_mtbf": text(
        "--device-mtbf",
        "T",
        "Mean time between failures of one device; the rates of all parts add up.",
        panel=_FAILURES,
    ),
    "node_mtbf": text("--node-mtbf", "T", "Mean time between failures of one node.", panel=_FAILURES),
    "switch_mtbf": text(
        "--switch-mtbf", "T", "Mean time between failures of one switch, each serving 32 nodes.", panel=_FAILURES
    ),
    "rack_mtbf": text(
        "--rack-mtbf", "T", "Mean time between failures of one rack, each taking down its 4 nodes.", panel=_FAILURES
    ),
    "power_mtbf": text("--power-mtbf", "T", "Mean time between power failures of the whole job.", panel=_FAILURES),
    "software_mtbf": text(
        "--software-mtbf", "T", "Mean time between software failures, which do not lose a node.", panel=_FAILURES
    ),
    "cluster": text(
        ("--cluster", "-c"), "C", "Cluster: catalog name with nodes, e.g. dgx-h100:64.", panel=_FAILURES, names=clusters
    ),
    "law": text(
        "--law",
        "LAW",
        "Law of the times between failures: exponential:mean=3h, weibull:mean=3h,shape=0.7 or trace:gaps.csv.",
        panel=_FAILURES,
    ),
    "silent_mtbf": text("--silent-mtbf", "T", "Mean time between silent corruptions of the job.", panel=_CORRUPTION),
    "silent_delay": text("--silent-delay", "T", "Time until a silent corruption is noticed.", panel=_CORRUPTION),
    "repair": text("--repair", "T", "Mean time until a lost node is back.", panel=_NODES),
    "spares": text("--spares", "N", "Spare nodes on standby. (default: 0)", panel=_NODES),
    "fewest_nodes": text(
        "--fewest-nodes", "N", "Continue on at least this many nodes instead of waiting for repairs.", panel=_NODES
    ),
    "grow": text(
        "--grow",
        "W",
        "When to take repaired nodes back: failure, checkpoint or at-once. (default: failure)",
        panel=_NODES,
    ),
    "replica_nodes": text(
        "--replica-nodes", "N", "Nodes of one replica, which leave together. (default: 1)", panel=_NODES
    ),
    "replaced": text("--replaced", "FRAC", "Share of failures that lose a node. (default: 1)", panel=_NODES),
    "write": text(
        "--write", "T", "Time to write one checkpoint; run:last takes the time measured in a kept run of train."
    ),
    "restart": text("--restart", "T", "Restart time, from a noticed failure until work resumes. (default: 0)"),
    "detection": text("--detection", "T", "Time until a failure is noticed. (default: 0)"),
    "async_frac": text("--async", "FRAC", "Share of a checkpoint write hidden behind work. (default: 0)"),
    "interval": text("--interval", "T", "Work between checkpoints. (default: the best)"),
    "size": text("--size", "S", "Bytes of the whole checkpoint.", panel=_SHARDS),
    "optimizer": text(
        "--optimizer", "O", "Optimizer with which MODEL is trained. (default: adamw)", panel=_SHARDS, names=optimizers
    ),
    "ranks": text("--ranks", "N", "Ranks that write simultaneously. (default: the cluster's, or 1)", panel=_SHARDS),
    "rank_bandwidth": text("--rank-bandwidth", "R", "Write bandwidth per rank.", panel=_SHARDS),
    "storage_bandwidth": text(
        "--storage-bandwidth", "R", "Bandwidth of the storage, shared by all ranks.", panel=_SHARDS
    ),
    **LIGHTER,
    "work": text("--work", "T", "Useful work of the run. (default: 60 d, or 200 intervals if longer)", panel=_RUN),
    "simulate": switch("--simulate", "Also simulate the run (Monte Carlo), with a 95 % interval.", False, _RUN),
    "campaigns": text("--campaigns", "N", "Number of simulated runs. (default: 1000)", panel=_RUN),
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
    """Find how often to checkpoint (Young, Daly, exact), and what checkpoints and failures cost."""
    from lockstep import api

    picture_path(plot)
    answer = api.checkpoint(**given(words))  # type: ignore[arg-type]

    def picture(path: Any) -> None:
        from lockstep.report.checkpoint_plot import plot_overhead

        plot_overhead(answer, path)

    draw(plot, picture)
    show(answer, as_json, "checkpoint")
