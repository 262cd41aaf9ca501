"""`lockstep converge`: one experiment of the convergence lab, or the list of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lockstep.cli.options import argument, takes
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import PLOT, SEED, draw
from lockstep.errors import BadInput

_SET_HELP = "One setting; may be repeated. Without EXPERIMENT all settings are listed with --json."
WORDS = {
    "experiment": argument("[EXPERIMENT]", "Name of an experiment; all are listed when left out.", None),
    "settings": (Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=_SET_HELP)], None),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep converge\n\n"
        + "lockstep converge delay-stability --set delays=1,2,5,10 --set momentum=0.9 --plot edge.png"
    )(converge)


@takes(WORDS, SEED, PLOT)
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
        answer = api.converge(experiment, _pairs(settings or []), seed=seed, progress=report)

    def picture(path: Path) -> None:
        from lockstep.report.converge_plot import plot_findings

        plot_findings(answer, path)

    draw(plot, picture)
    show(answer, as_json, "converge", ok=answer.agrees)


def _pairs(settings: list[str]) -> dict[str, Any]:
    """Keys and values of `--set key=value`."""
    pairs: dict[str, Any] = {}
    for text in settings:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key or not value:
            raise BadInput(f"{text[:60]!r} must be written KEY=VALUE", "--set")
        if key in pairs:
            raise BadInput(f"{key[:60]} is given twice", "--set")
        pairs[key] = value
    return pairs
