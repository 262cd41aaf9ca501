"""Training runs for a person: how well, how fast, with how many bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from lockstep.verbs.train import Training
from lockstep.measure.train import StoppedRun
from lockstep.report.terminal import heading, indented, small_print, table
from lockstep.units import format_count, format_frac, format_size, format_time

ROWS = 12
"""Of the losses of a run that was stopped."""
NOTES = {
    "state_B": "weights, gradients and optimizer state of a rank",
    "most_live": "micro-batches held at most",
    "staleness": "gradients by rounds of age",
    "disagreement": "workers differed by at most",
    "skipped_steps": "steps skipped",
    "last_scale": "last loss scale",
}


def render(found: Training, out: Console) -> None:
    """Prints a row per method, and what each has to say; first of all, where Ctrl-C ended one."""
    if found.stopped is not None:
        _stopped(found.stopped, out)
    if found.runs:
        _methods(found, out)
        small_print(out, "Assumptions", found.assumptions, len(found.assumptions))


def _stopped(run: StoppedRun, out: Console) -> None:
    """The losses of a run that was ended, at most ROWS of them."""
    out.print(Text(f"{run.method}: stopped by Ctrl-C after {run.done:,} of {run.task.steps:,} steps", style="bold"))
    if not run.steps:
        return
    heading(out, "Losses so far", "all of them with --json")
    last = len(run.steps) - 1
    places = sorted({round(row * last / (ROWS - 1)) for row in range(ROWS)})
    losses = [(run.first_step + place + 1, run.loss[place]) for place in places]
    rows = [[f"{step:,}", "-" if loss is None else _loss(loss)] for step, loss in losses]
    indented(out, table([("step", "right"), ("loss", "right")], rows))


def _methods(found: Training, out: Console) -> None:
    """The runs that ended by themselves."""
    best = min(found.runs, key=lambda run: run.test_loss if math.isfinite(run.test_loss) else math.inf)
    task = best.task
    way = f"loss {_loss(best.loss[0])} to {_loss(best.loss[-1])}" if best.loss else "no step was left to do"
    out.print(
        Text(
            f"{best.method}: {way} in {task.steps:,} steps, {format_frac(best.accuracy_frac)} right on test data",
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
            "-" if run.final_loss is None else _loss(run.final_loss),
            _loss(run.test_loss),
            format_frac(run.accuracy_frac),
            "-" if run.step_sent_B is None else format_size(run.step_sent_B),
            "-" if run.step_time_s is None else format_time(run.step_time_s),
            "equal" if run.replicas_equal else "differ",
        ]
        for run in found.runs
    ]
    indented(out, table(columns, rows))
    _late(found, out)
    _checkpoints(found, out)
    _notes(found, out)


def _late(found: Training, out: Console) -> None:
    """What a rank that was made late cost the others."""
    late = [(run.method, run.lateness) for run in found.runs if run.lateness is not None]
    if not late:
        return
    first = late[0][1]
    heading(out, "Late", f"rank {first.rank} by {format_time(first.delay_s)} in every second step; the others' steps")
    columns = [("", "left"), ("on time", "right"), ("late", "right"), ("longer", "right"), ("if all wait", "right")]
    rows = [
        [name, *map(format_time, (one.on_time_s, one.late_s, max(0.0, one.growth_s), one.predicted_s))]
        for name, one in late
    ]
    indented(out, table(columns, rows))


def _checkpoints(found: Training, out: Console) -> None:
    """Where runs went on from, what they passed over, and what saving took."""
    lines = []
    for run in found.runs:
        lines += [f"failed and restarted: {why}" for why in run.failures]
        lines += [f"skipped {why}" for why in run.passed_over]
        if run.first_step:
            lines.append(f"resumed after {run.first_step:,} steps")
        if run.saves.get("saves"):
            saves, taken = run.saves, (format_time(run.saves[name]) for name in ("write_s", "blocking_s"))
            size = format_size(saves["size_B"])
            lines.append("{} saves of {}: {} to write, training held up for {}".format(saves["saves"], size, *taken))
    if lines:
        heading(out, "Checkpoints")
        indented(out, Text("\n".join(lines)))


def _loss(value: float) -> str:
    """Nats; a word where they are no number any more."""
    return f"{value:.4f}" if math.isfinite(value) else "diverged"


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
    if isinstance(value, Mapping):
        return " ".join(f"{key}: {_note(key, item)}" for key, item in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)
