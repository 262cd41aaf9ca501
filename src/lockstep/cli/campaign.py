"""`lockstep campaign`: a whole run, what it takes, and what to change."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.options import BATCH, CLUSTER, LAYOUT, MODEL, RECIPE, switch, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import PLOT, SEED, draw, given

_TARGET = "Target: one of --tokens, --loss, --compute-optimal"
TARGET = {
    "tokens": text("--tokens", "T", "Tokens to train on, as 15T (images for a ConvNet).", panel=_TARGET),
    "loss": text("--loss", "L", "Until this loss, in nats per token, by a scaling law.", panel=_TARGET),
    "compute_optimal": switch("--compute-optimal", "On the model's compute-optimal tokens.", False, _TARGET),
    "scaling_law": text("--scaling-law", "LAW", "besiroglu, hoffmann or kaplan. (default: besiroglu)", panel=_TARGET),
    "critical_batch_tokens": text(
        "--critical-batch-tokens", "N", "Beyond it a batch spends more tokens on the same loss.", panel=_TARGET
    ),
    "warmup_steps": text("--warmup-steps", "N", "Steps in which the learning rate rises.", panel=_TARGET),
    "ramp_from": text("--ramp-from", "N", "Tokens per step at the start of a batch ramp.", panel=_TARGET),
    "ramp_tokens": text("--ramp-tokens", "N", "Tokens over which the batch grows.", panel=_TARGET),
}
_FAILURES = "Failures and checkpoints (default: what is known of the cluster)"
FAILURES = {
    "mtbf": text("--mtbf", "T", "Mean time between failures of the job.", panel=_FAILURES),
    "node_mtbf": text("--node-mtbf", "T", "Of one node.", panel=_FAILURES),
    "law": text("--law", "LAW", "weibull:mean=3h,shape=0.7, trace:gaps.csv, for the simulation.", panel=_FAILURES),
    "detection": text("--detection", "T", "Until a failure is noticed. (default: 10 min)", panel=_FAILURES),
    "restart": text("--restart", "T", "Until work goes on. (default: 5 min and reading back)", panel=_FAILURES),
    "silent_mtbf": text("--silent-mtbf", "T", "Mean time between silent corruptions of the job.", panel=_FAILURES),
    "silent_delay": text("--silent-delay", "T", "Until a corruption is noticed.", panel=_FAILURES),
    "repair": text(
        "--repair", "T", "Mean time until a lost node is back. (default: replaced at once)", panel=_FAILURES
    ),
    "spares": text("--spares", "N", "Nodes that stand by, with --repair. (default: 0)", panel=_FAILURES),
    "fewest_nodes": text("--fewest-nodes", "N", "Go on with so many instead of waiting.", panel=_FAILURES),
    "replaced": text("--replaced", "FRAC", "Share of the failures that lose a node. (default: 1)", panel=_FAILURES),
    "write": text("--write", "T", "One checkpoint. (default: its size at the storage's rate)", panel=_FAILURES),
    "storage_bandwidth": text("--storage-bandwidth", "R", "Of the storage, for all devices.", panel=_FAILURES),
    "async_frac": text("--async", "FRAC", "Share of a write hidden behind work. (default: 0)", panel=_FAILURES),
    "interval": text("--interval", "T", "Work between checkpoints. (default: the best)", panel=_FAILURES),
}
_SERVICE = "The step in service"
SERVICE = {
    "straggler_cv": text("--straggler-cv", "FRAC", "Spread of devices' compute times, as 2%.", panel=_SERVICE),
    "eval_every": text("--eval-every", "N", "Steps between evaluations.", panel=_SERVICE),
    "eval_tokens": text("--eval-tokens", "N", "Tokens of one evaluation.", panel=_SERVICE),
    "data_bandwidth": text("--data-bandwidth", "R", "At which all devices read training data.", panel=_SERVICE),
    "sample_size": text("--sample-size", "S", "Read per token, or per image. (default: 4 B)", panel=_SERVICE),
}
_MONEY = "Money and energy"
MONEY = {
    "price": text("--price", "P", "Dollars per device and hour, instead of the catalog's.", panel=_MONEY),
    "reserved_discount": text("--reserved-discount", "FRAC", "Compare with reserved devices.", panel=_MONEY),
    "spot_discount": text("--spot-discount", "FRAC", "Compare with spot devices; needs --preemption.", panel=_MONEY),
    "preemption": text("--preemption", "T", "Mean time until one spot node is taken away.", panel=_MONEY),
    "power": text("--power", "W", "Per device. (default: its TDP)", panel=_MONEY),
    "pue": text("--pue", "X", "Power of the facility over that of its equipment. (default: 1)", panel=_MONEY),
    "carbon": text("--carbon", "X", "kg of CO2 per kWh of the grid, as 0.4.", panel=_MONEY),
}
RUNS = {"campaigns": text("--campaigns", "N", "Simulated runs. (default: 1000)")}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep campaign llama3-70b --cluster dgx-h100:64 --batch-tokens 4M --tokens 15T --plot tornado.png\n\n"
        + "lockstep campaign llama3-8b -c dgx-a100-80gb:16 --batch 512 --compute-optimal --tp 2 --zero 1 --json\n\n"
        + "lockstep campaign llama3-70b -c aws-p5:64 --batch-tokens 4M --loss 1.95 --spot-discount 60% --preemption 10d"
    )(campaign)


@takes(MODEL, CLUSTER, BATCH, TARGET, RUNS, SEED, PLOT, FAILURES, SERVICE, MONEY, LAYOUT, RECIPE)
def campaign(as_json: bool, plot: str | None, sequence_parallel: bool, **words: Any) -> None:
    """Follow a whole training run: days, failures, money, what it waits for, and what to change.

    Without layout flags the planner's best layout is taken.
    """
    from lockstep import api
    from lockstep.report.progress import progress

    with progress("planning, simulating, comparing changes") as report:
        answer = api.campaign(sequence_parallel=sequence_parallel or None, progress=report, **given(words))  # type: ignore[arg-type]

    def picture(path: Any) -> None:
        from lockstep.report.tornado_plot import plot_tornado

        plot_tornado(answer, path)

    draw(plot, picture)
    show(answer, as_json, "campaign")
