"""`lockstep reproduce`: the same seeds, the same bits; and what parts runs that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.run.partings import Compared
from lockstep.run.reproduce import SOURCES, Reproduction, Trial
from lockstep.show.views.parts import bars
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import make_figure
from lockstep.show.views.parts.parting import plot_compared, render_compared
from lockstep.show.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console


def render(found: Reproduction | Compared, out: Console) -> None:
    """Prints the verdict, then a row per trial; of two kept runs where they part and why."""
    if isinstance(found, Compared):
        return render_compared(found, out)
    out.print(Text(f"{_title(found)}.", style="bold"))
    task = found.task
    out.print(f"{found.method}, {task.model}, {task.steps} steps, {found.ranks} ranks, seed {task.seed}.")
    heading(out, "Switched", "first place where a run's bits differ from those of the first run")
    trials = _trials(found)
    columns = [("source", "left"), ("diverges at", "left"), ("tensor", "left"), ("weight difference", "right")]
    indented(out, table(columns, (_row(trial) for trial in trials)))
    if found.together is not None and found.together.parting is not None:
        out.print()
        out.print(f"{' and '.join(found.culprits) or 'Only all of them together'} made the difference.")
    heading(out, "Sources")
    switched = [name for trial in found.alone for name in trial.switched]
    indented(out, table([("source", "left"), ("what", "text")], ((name, SOURCES[name].summary) for name in switched)))


def _row(trial: Trial) -> list[str]:
    if trial.parting is None:
        return [trial.name, "never", "", "0"]
    place = trial.parting
    return [trial.name, f"step {place.step}, rank {place.rank}", place.tensor, f"{trial.largest_difference:.3g}"]


def _title(found: Reproduction) -> str:
    return f"The same seeds gave {'the same bits' if found.reproducible else 'different bits'}"


def _trials(found: Reproduction) -> list[Trial]:
    return [found.again, *([found.together] if found.together else []), *found.alone]


def plot_trials(found: Reproduction | Compared) -> Figure:
    """The first step at which a run's bits differ, by what was switched; a bar to the end where they never do."""
    if isinstance(found, Compared):
        return plot_compared(found)
    trials, steps = _trials(found), found.task.steps

    def draw(axes: Axes) -> None:
        ends = [steps if one.parting is None else one.parting.step for one in trials]
        colours = [bars.GREEN if one.parting is None else bars.RED for one in trials]
        axes.barh(range(len(trials)), ends, color=colours, height=bars.HEIGHT)
        for place, (one, end) in enumerate(zip(trials, ends, strict=True)):
            place_of = "the same bits to the end" if one.parting is None else f"differs in {one.parting.tensor}"
            axes.text(end, place, f" {place_of}", va="center", fontsize=8)
        bars.rows(axes, [f"{one.name} switched" for one in trials])
        axes.set(xlim=(0, 1.6 * max(steps, 1)), xlabel="steps with the same bits as the first run")

    return make_figure(_title(found), draw, size=(9.0, 1.6 + 0.3 * max(4, len(trials))))


COMMAND = Command(
    examples=(
        "lockstep reproduce",
        "lockstep reproduce zero-1 --ranks 2 --optimizer adam",
        "lockstep reproduce --switch rank-order,data-order --json",
        "lockstep reproduce checkpoints-a checkpoints-b",
    ),
    render=render,
    picture=plot_trials,
    doing="reproduce",
    ok=lambda answer: answer.identical if isinstance(answer, Compared) else answer.reproducible,
    lists=False,
)
