"""`lockstep runs`: the runs that were kept."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lockstep.cli.options import Options, argument, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import PLOT, draw, given

WORDS: Options = {
    "action": argument("[ACTION]", "Action: list, show, compare, export, delete or reindex. (default: list)", "list"),
    "names": (
        Annotated[
            list[str] | None,
            typer.Argument(
                metavar="[RUN]...", help="Run: its id, the beginning or end of its id, or last.", show_default=False
            ),
        ],
        None,
    ),
    "root": text("--runs", "DIR", "Folder of kept runs. (default: $LOCKSTEP_RUNS, else ./runs)"),
    "tensorboard": text("--tensorboard", "DIR", "Folder in which export writes the curves for TensorBoard."),
    "limit": text("--limit", "N", "Number of runs to list, newest first. (default: 20)"),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep runs\n\nlockstep runs show last\n\nlockstep runs compare 20261121T1405 last --plot curves.png\n\n"
        + "lockstep runs export last --tensorboard curves\n\nlockstep runs reindex"
    )(runs)


@takes(WORDS, PLOT)
def runs(as_json: bool, plot: str | None, action: str, names: list[str] | None, **words: Any) -> None:
    """List, show and compare kept runs; rebuild their index."""
    from lockstep import api
    from lockstep.errors import BadInput

    if plot is not None and action != "compare":
        raise BadInput("belongs to compare", "--plot")
    answer = api.runs(action, *(names or ()), **given(words))  # type: ignore[arg-type]

    def picture(path: Any) -> None:
        from lockstep.report.runs_plot import plot_series

        plot_series(answer, path)  # type: ignore[arg-type]

    draw(plot, picture)
    show(answer, as_json, "runs")
