"""`lockstep scaling`: strong and weak scaling, and where more devices stop helping."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.operation_options import FAILURES, LIGHTER, SERVICE, TARGET
from lockstep.cli.options import BATCH, CLUSTER, MODEL, RECIPE, switch, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import PLOT, draw, given, picture_path

SIZES = {
    "weak": switch("--weak", "Grow the batch with the devices; --batch is the batch on all of them.", False),
    "deadline": text(
        "--deadline", "D", "Deadline, e.g. 30d: finds the fewest devices that finish in time, failures included."
    ),
    "budget": text("--budget", "USD", "Budget in dollars: finds the fastest size that it pays for."),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep scaling llama3-70b --cluster dgx-h100:64 --batch-tokens 4M --tokens 15T --plot scaling.png\n\n"
        + "lockstep scaling llama3-8b -c aws-p5:32 --batch 512 --tokens 2T --deadline 40d --budget 500000\n\n"
        + "lockstep scaling llama3-8b -c dgx-a100-80gb:16 --batch 512 --weak"
    )(scaling)


@takes(MODEL, CLUSTER, BATCH, SIZES, PLOT, TARGET, FAILURES, LIGHTER, SERVICE, RECIPE)
def scaling(as_json: bool, plot: str | None, **words: Any) -> None:
    """Plan a job on a cluster and on parts of it: speed-up, days, money, and where more devices stop helping."""
    from lockstep import api
    from lockstep.report.progress import progress

    picture_path(plot)
    with progress("planning every size") as report:
        answer = api.scaling(progress=report, **given(words))  # type: ignore[arg-type]

    def picture(path: Any) -> None:
        from lockstep.report.scaling_plot import plot_scaling

        plot_scaling(answer, path)

    draw(plot, picture)
    show(answer, as_json, "scaling")
