"""`lockstep case`: published training runs, predicted beside published."""

from __future__ import annotations

from pathlib import Path

import typer

from lockstep.cli.options import argument, takes
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import PLOT, draw, picture_path

CASE = {"name": argument("[CASE]", "Case study, or a YAML file of your own; all when omitted.", None)}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep case --plot cases.png\n\nlockstep case bloom-176b\n\nlockstep case deepseek-v3 --json"
    )(case)


@takes(CASE, PLOT)
def case(as_json: bool, name: str | None, plot: str | None) -> None:
    """Compare published training runs with what is predicted for them.

    The exit code is 1 when a miss is not explained.
    """
    from lockstep import api
    from lockstep.report.progress import progress

    picture_path(plot)
    with progress("predicting runs") as report:
        answer = api.case(name, progress=report)

    def picture(path: Path) -> None:
        from lockstep.report.case_plot import plot_cases

        plot_cases(answer, path)

    draw(plot, picture)
    show(answer, as_json, "case", ok=answer.ok)
