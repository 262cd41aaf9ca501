"""`lockstep pipeline`: one step of a pipeline schedule."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.options import takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import PIPELINE, PLOT, draw, given

RECOMPUTE = {"recompute": text("--recompute", "FRAC", "Share of the forward pass that runs again backward.")}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep pipeline --stages 4 --microbatches 8 --schedule 1f1b\n\n"
        + "lockstep pipeline --stages 8 --microbatches 32 --schedule zb-h1 --forward-s 10ms --backward-s 20ms "
        + "--plot zb.svg"
    )(pipeline)


@takes(PIPELINE, RECOMPUTE, PLOT)
def pipeline(as_json: bool, plot: str | None, **words: Any) -> None:
    """Schedule a pipeline: makespan, bubble, micro-batches held per stage."""
    from lockstep import api

    answer = api.pipeline(**given(words))  # type: ignore[arg-type]

    def picture(path: Any) -> None:
        from lockstep.report.timeline_plot import plot_timeline

        plot_timeline(answer.timeline, path, streams=["compute"])

    draw(plot, picture)
    show(answer, as_json, "pipeline")
