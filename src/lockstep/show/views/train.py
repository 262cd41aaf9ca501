"""`lockstep train`: real training on real processes, or the list of methods."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Mapping
from functools import partial
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any

from rich.text import Text

from lockstep.base.errors import BadInput, Stopped
from lockstep.base.units import format_count, format_frac, format_size, format_time
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.diagnosis import render_operations
from lockstep.show.views.parts.figure import PALETTE, make_figure
from lockstep.show.views.parts.output import Ended, draw, given, pairs, picture_path, show
from lockstep.show.views.parts.progress import progress
from lockstep.show.views.parts.terminal import heading, indented, small_print, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.run.train import StoppedRun
    from lockstep.show.verbs.train import Training, TrainingMethods


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
        _profile(found, out)
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
    name = next(name for name, run in zip(found.names, found.runs, strict=True) if run is best)
    right = f"{format_frac(best.accuracy_frac)} right on test data"
    out.print(Text(f"{name}: {way} in {task.steps:,} steps, {right}", style="bold"))
    out.print(
        f"{task.model} of {format_count(len(best.weights))} parameters, batch {task.batch}, {task.optimizer}, learning "
        f"rate {task.learning_rate:g}, {best.ranks} ranks, seed {task.seed}."
    )
    heading(out, "Methods", "bytes: sent by a rank per step, counted; time: median step")
    columns = [("", "left"), ("final loss", "right"), ("test loss", "right"), ("right", "right"), ("sent", "right")]
    columns += [("step", "right"), ("replicas", "left")]
    rows = [
        [
            name,
            "-" if run.final_loss is None else _loss(run.final_loss),
            _loss(run.test_loss),
            format_frac(run.accuracy_frac),
            "-" if run.step_sent_B is None else format_size(run.step_sent_B),
            "-" if run.step_time_s is None else format_time(run.step_time_s),
            "equal" if run.replicas_equal else "differ",
        ]
        for name, run in zip(found.names, found.runs, strict=True)
    ]
    indented(out, table(columns, rows))
    _reached(found, out)
    _late(found, out)
    _checkpoints(found, out)
    _notes(found, out)


def _reached(found: Training, out: Console) -> None:
    """Steps and seconds to the target, where one was asked for."""
    if found.target is None:
        return
    heading(out, f"To a training loss of {found.target:g}", "mean of 20 steps; seconds as measured here")
    rows = [
        [one["run"], "-", "not reached"] if one["steps"] is None
        else [one["run"], f"{one['steps']:,}", format_time(one["time_s"])]
        for one in found.reached
    ]  # fmt: skip
    indented(out, table([("", "left"), ("steps", "right"), ("time", "right")], rows))


def _profile(found: Training, out: Console) -> None:
    """Where the profiles are; on a page, which may draw, also what they show: measured alone, as none is predicted."""
    if found.profile is None:
        return
    heading(out, "Profile", "of some steps, by torch.profiler")
    indented(out, Text(f"lockstep diagnose {shlex.quote(str(found.profile))}"))
    if getattr(out, "alive", False) and (answer := found.diagnosed()) is not None and answer.seen is not None:
        render_operations(answer, answer.seen, out)


def _late(found: Training, out: Console) -> None:
    """What a rank that was made late cost the others."""
    late = [(name, run.lateness) for name, run in zip(found.names, found.runs, strict=True) if run.lateness is not None]
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
    for named, run in zip(found.names, found.runs, strict=True):
        said = [f"{name} {_note(name, value)}" for name, value in run.settings.items()]
        said += [f"{NOTES.get(name, name)}: {_note(name, value)}" for name, value in run.notes.items()]
        if said:
            rows.append([named, ", ".join(said)])
    if rows:
        heading(out, "Settings and findings")
        indented(out, table([("", "left"), ("", "text")], rows))


def _note(name: str, value: object) -> str:
    if name.endswith("_B") and isinstance(value, int | float):
        return format_size(value)
    if isinstance(value, Mapping):
        return " ".join(f"{key}: {_note(key, item)}" for key, item in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)


WINDOWS = 20
"""Steps are averaged over so many windows of the run for the strong line."""


def plot_losses(found: Training) -> Figure:
    """Three panels that share the loss axis."""
    draws = [
        lambda axes: _panel(axes, found, "steps", [range(1, len(run.loss) + 1) for run in found.runs]),
        lambda axes: _panel(axes, found, "seconds", [list(accumulate(run.time_s)) for run in found.runs]),
        lambda axes: _panel(axes, found, "MB sent by all ranks", [_sent_MB(run.sent_B) for run in found.runs]),
    ]
    task = found.runs[0].task
    return make_figure(f"{task.model}, batch {task.batch}, {found.runs[0].ranks} ranks", *draws, size=(12.0, 4.0))


def _panel(axes: Axes, found: Training, label: str, places: Sequence[Sequence[float]]) -> None:
    """One panel: the mean of neighbours strong, the losses behind it faint."""
    for number, (name, run, x) in enumerate(zip(found.names, found.runs, places, strict=True)):
        color = PALETTE[number % len(PALETTE)]
        axes.plot(x, run.loss, color=color, alpha=0.25, linewidth=0.8)
        axes.plot(x, _smoothed(run.loss), color=color, label=name)
    axes.set(xlabel=label, ylabel="training loss, nats")
    axes.set_ylim(bottom=0)
    if label == "steps":
        axes.legend(fontsize=8, frameon=False)


def _smoothed(losses: Sequence[float]) -> list[float]:
    """Mean of the losses around each step, half a window to both sides where there are so many."""
    half = len(losses) // (2 * WINDOWS)
    windows = (losses[max(0, place - half) : place + half + 1] for place in range(len(losses)))
    return [sum(window) / len(window) for window in windows]


def _sent_MB(sent_B: Sequence[float]) -> list[float]:
    return list(accumulate(size_B / 1e6 for size_B in sent_B))


def render_methods(found: TrainingMethods, out: Console) -> None:
    """Prints the list."""
    out.print(Text(f"{len(found.methods)} methods: lockstep train METHOD --ranks N", style="bold"))
    for family, members in groupby(found.methods, key=lambda one: one.family):
        heading(out, family.capitalize())
        rows = [[one.name, one.summary] for one in members]
        indented(out, table([("", "left"), ("", "text")], rows))
    out.print()
    out.print(Text("Settings, sources and models of each: lockstep train --json", style="dim"))


def ask(as_json: bool, method: str | None, settings: list[str] | None, plot: str | None, **words: Any) -> None:
    """Lists the methods without one; shows what is known of a run that was stopped."""
    from lockstep.show.verbs.train import train, training_methods

    if method is None:
        if settings or plot:
            raise BadInput("--set and --plot need a method; lockstep train lists them", "METHOD")
        return show(training_methods(), as_json, render_methods)
    picture_path(plot)
    stopped = False
    try:
        with progress(f"train {method}") as report:
            answer = train(method, settings=pairs(settings or []), progress=report, **given(words))
    except Stopped as error:
        answer, stopped = error.answer, True
    if not stopped:
        draw(plot, partial(plot_losses, answer))
    show(answer, as_json, render, by_ranks=True)
    if stopped:
        sys.stderr.write(f"stopped by Ctrl-C{'; no picture was drawn' if plot else ''}\n")
        raise Ended(Stopped.exit_code)


COMMAND = Command(
    examples=(
        "lockstep train",
        "lockstep train synchronous,zero-3 --ranks 2 --steps 200 --plot loss.png",
        "lockstep train zero-1 --checkpoint saves --every 20 --restarts 2 --runs runs",
        "torchrun --nproc-per-node 2 -m lockstep train diloco --optimizer adam --learning-rate 0.003",
        "lockstep train pipeline --ranks 2 --layers 8 --set schedule=zb-v --set microbatches=8 --json",
        "lockstep train local-sgd --ranks 2 --set period=1,4,16 --target 0.5 --seed 0..4",
    ),
    render=render,
    picture=plot_losses,
    ask=ask,
    series=("run", "time_s", "seconds"),
)
