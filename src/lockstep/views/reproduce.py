"""`lockstep reproduce`: the same seeds, the same bits; and what parts runs that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.measure.reproduce import SOURCES, Reproduction, Trial
from lockstep.views.parts.command import Command
from lockstep.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from rich.console import Console


def render(found: Reproduction, out: Console) -> None:
    """Prints the verdict, then a row per trial."""
    verdict = "the same bits" if found.reproducible else "different bits"
    out.print(Text(f"The same seeds gave {verdict}.", style="bold"))
    task = found.task
    out.print(f"{found.method}, {task.model}, {task.steps} steps, {found.ranks} ranks, seed {task.seed}.")
    heading(out, "Switched", "first place where a run's bits differ from those of the first run")
    trials = [found.again, *([found.together] if found.together else []), *found.alone]
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


COMMAND = Command(
    examples=(
        "lockstep reproduce",
        "lockstep reproduce zero-1 --ranks 2 --optimizer adam",
        "lockstep reproduce --switch rank-order,data-order --json",
    ),
    render=render,
    doing="reproduce",
    ok=lambda answer: answer.reproducible,
    lists=False,
)
