"""`lockstep converge`: one experiment of the convergence lab, or the list of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.cli.completing import experiments
from lockstep.cli.options import argument, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import PLOT, SEED, SETTINGS, draw, given, pairs, picture_path
from lockstep.errors import BadInput

if TYPE_CHECKING:
    from lockstep.lab import Findings
    from lockstep.lab.sweep import Sweep

_SWEEP = "Many runs"
_SWEEP_HELP = "Run at each of these values, as rate=0.01,0.1 or batch=1..64x2; may be repeated for every combination."
_ENGINE_HELP = "Engine: serial, processes[:N], or dask[:N or :ADDRESS of a scheduler]. (default: serial)"
_LIMIT_HELP = "Longest time for all runs, as forecast from the first; a longer sweep is refused. (default: 1h)"
WORDS = {
    "experiment": argument(
        "[EXPERIMENT]",
        "Experiment to run, or group to list; all groups are listed when omitted.",
        None,
        names=experiments,
    ),
}
SWEEPING = {
    "swept": (
        Annotated[
            list[str] | None,
            typer.Option("--sweep", metavar="KEY=A,B,C", help=_SWEEP_HELP, rich_help_panel=_SWEEP),
        ],
        None,
    ),
    "seeds": text("--seeds", "N", "Number of seeds to run with, counting up from --seed. (default: 1)", panel=_SWEEP),
    "engine": text("--engine", "E", _ENGINE_HELP, panel=_SWEEP),
    "limit": text("--limit", "TIME", _LIMIT_HELP, panel=_SWEEP),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep converge\n\n"
        + "lockstep converge staleness\n\n"
        + "lockstep converge delay-stability --set delays=1,2,5,10 --set momenta=0.9 --plot edge.png\n\n"
        + "lockstep converge noise-scale --sweep condition=1,10,100 --seeds 20 --engine processes"
    )(converge)


@takes(WORDS, SETTINGS, SWEEPING, SEED, PLOT)
def converge(
    as_json: bool, experiment: str | None, settings: list[str] | None, seed: str, plot: str | None,
    swept: list[str] | None, seeds: str | None, engine: str | None, limit: str | None,
) -> None:  # fmt: skip
    """Simulate how training converges and compare it with theory: staleness, local steps, compression, batch size.

    The exit code is 1 when theory and simulation disagree.
    """
    from lockstep import api
    from lockstep.lab import is_group
    from lockstep.report.progress import progress
    from lockstep.report.sweep_panels import check_drawable

    if experiment is None or is_group(experiment):
        if settings or plot or swept or seeds or engine or limit or seed != "0":
            raise BadInput(
                "--set, --seed, --sweep, --seeds, --engine, --limit and --plot need an experiment; "
                "lockstep converge lists them",
                "EXPERIMENT",
            )
        return show(api.converge(group=experiment), as_json, "experiments")
    picture_path(plot)
    fixed, values = pairs(settings or []), pairs(swept or [], "--sweep")
    many: dict[str, Any] = given({"seeds": seeds, "engine": engine, "limit": limit})
    if not values and not many:
        with progress(experiment) as report:
            alone = api.converge(experiment, fixed, seed=seed, progress=report)
        draw(plot, lambda path: _picture(alone, path))
        return show(alone, as_json, "converge", ok=alone.agrees)
    if plot:
        check_drawable(experiment, fixed, values)
    with progress(experiment) as report:
        answer = api.sweep(experiment, values, fixed, seed=seed, progress=report, **many)
    draw(plot, lambda path: _pictures(answer, path))
    show(answer, as_json, "sweep", ok=answer.agrees)


def _picture(found: Findings, path: Path) -> None:
    from lockstep.report.converge_plot import plot_findings

    plot_findings(found, path)


def _pictures(found: Sweep, path: Path) -> None:
    from lockstep.report.sweep_plot import plot_sweep

    plot_sweep(found, path)
