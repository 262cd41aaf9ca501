"""`lockstep reproduce`: the same seeds, the same bits; and what parts runs that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.measure.reproduce import SOURCES, Reproduction, Trial
from lockstep.views.parts.command import Command
from lockstep.views.parts.completing import methods, trainers
from lockstep.views.parts.options import SEED, SETTINGS, Options, argument, text
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


WORDS: Options = {
    "method": argument(
        "[METHOD]",
        "Training method, as listed by lockstep train. (default: synchronous)",
        "synchronous",
        names=methods,
    ),
    "ranks": text("--ranks", "N", "Number of processes on this machine. (default: 4)"),
    "model": text("--model", "M", "Model: mlp, cnn, gpt or moe. (default: mlp)"),
    "steps": text("--steps", "N", "Optimizer steps of every run. (default: 5)"),
    "batch": text("--batch", "N", "Samples per step. (default: 64)"),
    "optimizer": text("--optimizer", "O", "Optimizer: sgd, momentum or adam. (default: sgd)", names=trainers),
    "switch": text(
        "--switch",
        "S",
        "Settings to switch: reduction-order, rank-order, dtype, data-order, dropout-seed. Several, separated by "
        "commas, are switched together, then one at a time to find the cause. (default: each alone)",
    ),
}


COMMAND = Command(
    takes=(WORDS, SETTINGS, SEED),
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
