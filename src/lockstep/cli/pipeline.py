"""`lockstep pipeline`: one step of a pipeline schedule, or all schedules side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from lockstep.cli.completing import schedules
from lockstep.cli.options import Options, required, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import PASSES, PLOT, draw, given

ALL = "all"
_PANEL = "Times per micro-batch: one value, or one per stage, separated by commas"
WORDS: Options = {
    "stages": required(
        ("--stages",), "P", "Number of pipeline stages; several values, separated by commas, with --schedule all."
    ),
    "microbatches": text(
        "--microbatches", "M", "Micro-batches per step; several values, separated by commas, with --schedule all."
    ),
    "target": text(
        "--target",
        "FRAC",
        "Utilization, e.g. 95%: finds the fewest micro-batches that reach it; instead of --microbatches.",
    ),
    "schedule": text(
        "--schedule",
        "S",
        "Schedule: gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v ... or all, to compare them. "
        "(default: 1f1b, interleaved with --chunks)",
        names=schedules,
    ),
    **PASSES,
    "layers": text(
        "--layers",
        "L",
        "Forward times of the layers in order, e.g. 30x10ms,1x14ms; they are split evenly into stages.",
        panel=_PANEL,
    ),
    "forward_comm_s": text(
        "--forward-comm-s",
        "T",
        "Part of --forward-s that is the experts' all-to-all; hidden in DualPipe's cells.",
        panel=_PANEL,
    ),
    "backward_comm_s": text(
        "--backward-comm-s",
        "T",
        "Part of --backward-s that is the experts' all-to-all; hidden in DualPipe's cells.",
        panel=_PANEL,
    ),
    "recompute": text("--recompute", "FRAC", "Share of the forward pass that is recomputed in the backward pass."),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep pipeline --stages 4 --microbatches 8 --schedule 1f1b\n\n"
        + "lockstep pipeline --stages 8 --microbatches 32 --schedule zb-h1 --forward-s 10ms --backward-s 20ms "
        + "--plot zb.svg\n\n"
        + "lockstep pipeline --stages 8 --schedule 1f1b --target 95%\n\n"
        + "lockstep pipeline --stages 8 --microbatches 8,16,32,64 --schedule all --plot front.png\n\n"
        + "lockstep pipeline --stages 4 --microbatches 16 --layers 1x3ms,30x10ms,1x18ms\n\n"
        + "lockstep pipeline --stages 8 --microbatches 20 --schedule dualpipe --forward-s 2 --backward-s 3 "
        + "--weight-s 1 --forward-comm-s 1 --backward-comm-s 1 --plot dualpipe.png"
    )(pipeline)


def _function(words: Mapping[str, Any]) -> str:
    """The function that answers: for one schedule or for all, which takes several numbers by itself."""
    return "pipeline_choices" if words["schedule"] == ALL else "pipeline"


@takes(WORDS, PLOT, function=_function)
def pipeline(as_json: bool, plot: str | None, **words: Any) -> None:
    """Schedule a pipeline: makespan, bubble, micro-batches held per stage; or compare all schedules."""
    if words["schedule"] == ALL:
        _compare(as_json, plot, given(words))
        return
    from lockstep import api
    from lockstep.report.progress import progress

    with progress("building the schedule") as report:
        answer = api.pipeline(progress=report, **given(words))  # type: ignore[arg-type]

    def picture(path: Any) -> None:
        from lockstep.report.timeline_plot import plot_timeline

        plot_timeline(answer.timeline, path, streams=["compute", "comm"] if answer.pipeline.cells else ["compute"])

    draw(plot, picture)
    show(answer, as_json, "pipeline")


def _compare(as_json: bool, plot: str | None, words: dict[str, Any]) -> None:
    from lockstep import api
    from lockstep.errors import BadInput

    for name in ("target", "chunks", "layers", "recompute", "forward_comm_s", "backward_comm_s"):
        if name in words:
            raise BadInput("belongs to one schedule, not to --schedule all", f"--{name.replace('_', '-')}")
    if "microbatches" not in words:
        raise BadInput("must be given", "--microbatches")
    answer = api.pipeline_choices(**{name: value for name, value in words.items() if name != "schedule"})

    def picture(path: Any) -> None:
        from lockstep.report.pipeline_choices_plot import plot_choices

        plot_choices(answer, path)

    draw(plot, picture)
    show(answer, as_json, "pipeline_choices")
