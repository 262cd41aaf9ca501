"""`lockstep converge`: one experiment of the convergence lab, or the list of them."""

from __future__ import annotations

from pathlib import Path

import typer

from lockstep.cli.options import argument, takes
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import PLOT, SEED, SETTINGS, draw, pairs
from lockstep.errors import BadInput

WORDS = {
    "experiment": argument("[EXPERIMENT]", "Name of an experiment; all are listed when left out.", None),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep converge\n\n"
        + "lockstep converge delay-stability --set delays=1,2,5,10 --set momentum=0.9 --plot edge.png"
    )(converge)


@takes(WORDS, SETTINGS, SEED, PLOT)
def converge(as_json: bool, experiment: str | None, settings: list[str] | None, seed: str, plot: str | None) -> None:
    """Simulate how training converges, with the law drawn beside it: staleness, local steps, compression, batch size.

    The exit code is 1 when theory and simulation disagree.
    """
    from lockstep import api
    from lockstep.report.progress import progress

    if experiment is None:
        if settings or plot:
            raise BadInput("--set and --plot need an experiment; lockstep converge lists them", "EXPERIMENT")
        return show(api.converge(), as_json, "experiments")
    with progress(experiment) as report:
        answer = api.converge(experiment, pairs(settings or []), seed=seed, progress=report)

    def picture(path: Path) -> None:
        from lockstep.report.converge_plot import plot_findings

        plot_findings(answer, path)

    draw(plot, picture)
    show(answer, as_json, "converge", ok=answer.agrees)
