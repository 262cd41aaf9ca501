"""`lockstep converge`: one experiment of the convergence lab, or the list of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.errors import BadInput
from lockstep.show.verbs.converge import converge, sweep
from lockstep.show.verbs.words.calling import keywords
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.findings_plot import plot_findings
from lockstep.show.views.parts.findings_table import render_findings
from lockstep.show.views.parts.options import options_of
from lockstep.show.views.parts.output import draw, given, pairs, picture_path, show
from lockstep.show.views.parts.progress import progress
from lockstep.show.views.parts.sweep_panels import check_drawable
from lockstep.show.views.parts.sweep_plot import plot_sweep
from lockstep.show.views.parts.sweep_table import render_sweep
from lockstep.show.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.show.verbs.converge import Experiments


def render_experiments(found: Experiments, out: Console) -> None:
    """Prints the groups, or the experiments of the only one."""
    if len(found.groups) == 1:
        _experiments(found, out)
    else:
        _groups(found, out)


def _groups(found: Experiments, out: Console) -> None:
    out.print(Text(f"{len(found.experiments)} experiments in {len(found.groups)} groups", style="bold"))
    heading(out, "Groups")
    rows = [[group.name, str(len(group.experiments)), group.about] for group in found.groups]
    indented(out, table([("", "left"), ("experiments", "right"), ("about", "text")], rows))
    example = found.groups[1]
    heading(out, "Commands")
    asked = [
        [f"lockstep converge {example.name}", "the questions of a group"],
        [f"lockstep converge {example.experiments[0]}", "theory compared with a simulation"],
        [f"lockstep converge {example.experiments[0]} --plot a.png", "... and as a picture"],
        ["lockstep converge --json", "every question and setting"],
    ]
    indented(out, table([("", "left"), ("", "text")], asked))


def _experiments(found: Experiments, out: Console) -> None:
    group = found.groups[0]
    out.print(Text(f"{group.name}: {group.about}", style="bold"))
    heading(out, "Experiments", f"settings of each: lockstep converge {group.name} --json")
    indented(out, table([("", "left"), ("question", "text")], [[one.name, one.question] for one in found.experiments]))


SWEEPING = {name: one for name, one in options_of(sweep).items() if name not in keywords(converge)}


def ask(
    as_json: bool, experiment: str | None, settings: list[str] | None, seed: str | None, plot: str | None,
    swept: list[str] | None, seeds: str | None, engine: str | None, store: str | None, limit: str | None,
) -> None:  # fmt: skip
    """Lists experiments, runs one, or runs it for many settings."""
    from lockstep.learn.lab import is_group

    if experiment is None or is_group(experiment):
        if settings or plot or swept or seeds or engine or store or limit or seed:
            raise BadInput(
                "--set, --seed, --sweep, --seeds, --engine, --store, --limit and --plot need an experiment; "
                "lockstep converge lists them",
                "EXPERIMENT",
            )
        return show(converge(group=experiment), as_json, render_experiments)
    picture_path(plot)
    fixed, values = pairs(settings or []), pairs(swept or [], "--sweep")
    seed = seed or "0"
    many = given({"seeds": seeds, "engine": engine, "store": store, "limit": limit})
    if not values and not many:
        with progress(experiment) as report:
            alone = converge(experiment, fixed, seed=seed, progress=report)
        draw(plot, partial(plot_findings, alone))
        return show(alone, as_json, render_findings, ok=alone.agrees)
    if plot:
        check_drawable(experiment, fixed, values)
    with progress(experiment) as report:
        answer = sweep(experiment, values, fixed, seed=seed, progress=report, **many)
    draw(plot, partial(plot_sweep, answer))
    show(answer, as_json, render_sweep, ok=answer.ok)


COMMAND = Command(
    also=SWEEPING,
    examples=(
        "lockstep converge",
        "lockstep converge staleness",
        "lockstep converge delay-stability --set delays=1,2,5,10 --set momenta=0.9 --plot edge.png",
        "lockstep converge noise-scale --sweep condition=1,10,100 --seeds 5 --engine processes",
    ),
    more="The exit code is 1 when theory and simulation disagree.",
    render=render_findings,
    picture=plot_findings,
    lists=False,
    ask=ask,
)
