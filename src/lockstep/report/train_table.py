"""Training runs for a person: how well, how fast, with how many bytes."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lockstep.api import Training
from lockstep.report.terminal import heading, indented, small_print, table
from lockstep.units import format_count, format_frac, format_size, format_time

NOTES = {"state_B": "weights, gradients and optimizer state of a rank", "most_live": "micro-batches held at most"}


def render(found: Training, out: Console) -> None:
    """Prints a row per method, and what each has to say."""
    best = min(found.runs, key=lambda run: run.test_loss)
    task = best.task
    out.print(
        Text(
            f"{best.method}: loss {best.loss[0]:.3f} to {best.loss[-1]:.3f} in {task.steps:,} steps, "
            f"{format_frac(best.accuracy_frac)} right on test data",
            style="bold",
        )
    )
    out.print(
        f"{task.model} of {format_count(len(best.weights))} parameters, batch {task.batch}, {task.optimizer}, learning "
        f"rate {task.learning_rate:g}, {best.ranks} ranks, seed {task.seed}."
    )
    heading(out, "Methods", "bytes: sent by a rank per step, counted; time: median step")
    columns = [("", "left"), ("final loss", "right"), ("test loss", "right"), ("right", "right"), ("sent", "right")]
    columns += [("step", "right"), ("replicas", "left")]
    rows = [
        [
            run.method,
            f"{run.loss[-1]:.4f}",
            f"{run.test_loss:.4f}",
            format_frac(run.accuracy_frac),
            format_size(run.step_sent_B),
            format_time(run.step_time_s),
            "equal" if run.replicas_equal else "differ",
        ]
        for run in found.runs
    ]
    indented(out, table(columns, rows))
    _notes(found, out)
    small_print(out, "Assumptions", found.assumptions, len(found.assumptions))


def _notes(found: Training, out: Console) -> None:
    """Settings, and what only some methods can say."""
    rows = []
    for run in found.runs:
        said = [f"{name} {_note(name, value)}" for name, value in run.settings.items()]
        said += [f"{NOTES.get(name, name)}: {_note(name, value)}" for name, value in run.notes.items()]
        if said:
            rows.append([run.method, ", ".join(said)])
    if rows:
        heading(out, "Settings and findings")
        indented(out, table([("", "left"), ("", "text")], rows))


def _note(name: str, value: object) -> str:
    if name.endswith("_B") and isinstance(value, int | float):
        return format_size(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
