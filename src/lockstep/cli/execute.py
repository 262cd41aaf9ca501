"""`lockstep execute`: a collective or a pipeline on real ranks, measured beside predicted."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.completing import algorithms, programs, schedules
from lockstep.cli.options import argument, takes, text
from lockstep.cli.output import EXAMPLES, show_once
from lockstep.cli.program_options import PLOT, RANKS_HELP, RUNS, SIZE_IF_ANY, draw, given, picture_path

_PIPELINE = "Pipeline, one rank per stage"
WORDS = {
    "what": argument(
        "WHAT", "What to run: pipeline, or a collective such as all-reduce or all-to-all.", names=programs
    ),
    "ranks": text("--ranks", "N", RANKS_HELP),
}
PIPELINE = {
    "microbatches": text("--microbatches", "M", "Micro-batches per step.", panel=_PIPELINE),
    "schedule": text(
        "--schedule", "S", "Pipeline schedule: gpipe, 1f1b, zb-h1 ... (default: 1f1b)", panel=_PIPELINE, names=schedules
    ),
    "chunks": text("--chunks", "V", "Model chunks per stage, if the schedule allows a choice.", panel=_PIPELINE),
    "forward_s": text("--forward-s", "T", "Time of a stage's forward pass. (default: 10 ms)", panel=_PIPELINE),
    "backward_s": text("--backward-s", "T", "Time of a stage's whole backward pass. (default: 20 ms)", panel=_PIPELINE),
    "weight_s": text(
        "--weight-s", "T", "Time for weight gradients, part of --backward-s. (default: half)", panel=_PIPELINE
    ),
    "message_size": text(
        "--message-size", "S", "Size of a message between neighbouring stages. (default: 64 KB)", panel=_PIPELINE
    ),
}
RUN = {
    "algorithm": text("--algorithm", "A", "Algorithm of the collective. (default: the fastest)", names=algorithms),
    "backend": text("--backend", "B", "Backend: gloo, or nccl with one GPU per rank. (default: gloo)", "gloo"),
    "repeats": text("--repeats", "N", "Number of runs; the median one is shown. (default: 5)"),
    "warm_up": text("--warm-up", "N", "Number of warm-up runs before the measured ones. (default: 1)"),
    "timeout": text("--timeout", "T", "Longest wait for a rank. (default: 60 s)"),
    "latency": text(
        "--latency", "T", "Latency of the link to predict with, instead of calibrating one; with --bandwidth."
    ),
    "bandwidth": text("--bandwidth", "R", "Bandwidth of the link to predict with; with --latency."),
    "straggler": text(
        "--straggler", "R:T", "Make a rank late: 2:50ms for each computation (or send), or 2:1.5x for slower computing."
    ),
    "trace": text("--trace", "FILE", "Write both timelines, measured and predicted, for Perfetto: .json.gz."),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep execute all-reduce --ranks 2 --size 16MB --algorithm ring --plot ring.png\n\n"
        + "lockstep execute pipeline --ranks 4 --microbatches 8 --schedule zb-h1 --plot zb.png\n\n"
        + "lockstep execute all-reduce --ranks 4 --size 1MB --algorithm ring --straggler 2:50ms --plot late.png\n\n"
        + "torchrun --nproc-per-node 4 -m lockstep execute all-to-all --size 1MB"
    )(execute)


@takes(WORDS, SIZE_IF_ANY, RUN, RUNS, PIPELINE, PLOT)
def execute(as_json: bool, plot: str | None, **words: Any) -> None:
    """Run a collective or pipeline on real ranks; check bytes, messages and results; compare times with predictions."""
    from lockstep import api
    from lockstep.report.progress import progress

    picture_path(plot)
    with progress("running") as report:
        answer = api.execute(**given(words), progress=report)  # type: ignore[arg-type]

    def picture(path: Any) -> None:
        from lockstep.report.execute_plot import plot_execution

        plot_execution(answer, path)

    draw(plot, picture)
    show_once(answer, as_json, "execute", ok=answer.execution.ok)
