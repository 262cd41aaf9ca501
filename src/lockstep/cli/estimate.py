"""`lockstep estimate`: step time and memory of one layout."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.options import BATCH, CLUSTER, LAYOUT, MODEL, RECIPE, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import PLOT, draw
from lockstep.errors import BadInput

MOST_STAGES = 8
"""Stages whose traffic a picture shows; of more it shows computing alone."""
TRACE = {
    "trace": text("--trace", "FILE", "Also write the step as a Perfetto trace: .json.gz or .json."),
    "expand": text(
        "--expand",
        "W",
        "Detail of the trace: layers writes each layer of every pass; messages also expands each different collective "
        "of the first stage once, into the sends of all ranks of its group; tp, cp, ep or dp expands only that kind.",
    ),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep estimate gpt3-175b -c dgx-a100-80gb --gpus 1024 --batch 1536 --tp 8 --pp 16 --zero 1 --seq 2048\n\n"
        + "lockstep estimate llama3-8b -c dgx-h100:4 --batch 256 --zero 3 --recompute selective --json\n\n"
        + "lockstep estimate llama3-8b -c dgx-h100:4 --batch 256 --pp 4 --plot step.png --trace step.json.gz\n\n"
        + "lockstep estimate llama3-8b -c dgx-h100:4 --batch 64 --tp 8 --trace step.json.gz --expand messages"
    )(estimate)


@takes(MODEL, CLUSTER, BATCH, LAYOUT, RECIPE, PLOT, TRACE)
def estimate(as_json: bool, plot: str | None, trace: str | None, expand: str | None, **words: Any) -> None:
    """Estimate step time, MFU and memory of one layout.

    The exit code is 1 when it does not fit in memory.
    """
    from lockstep import api

    answer = api.estimate(**words)

    def picture(path: Any) -> None:
        from lockstep.parallel.lanes import COMPUTE
        from lockstep.parallel.script import LANES
        from lockstep.report.timeline_plot import plot_timeline

        streams = LANES if answer.layout.pp <= MOST_STAGES else (COMPUTE,)
        plot_timeline(answer.timeline(), path, streams=streams)

    draw(plot, picture)
    if trace is not None:
        api.trace_step(answer, trace, expand)
    elif expand is not None:
        raise BadInput("has no effect without --trace", "--expand")
    show(answer, as_json, "estimate", ok=bool(answer.memory.fits))
