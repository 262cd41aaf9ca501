"""Training runs as a picture: loss against steps, seconds and bytes sent."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.verbs.train import Training
from lockstep.report.figure import write_figure
from lockstep.report.timeline_plot import PALETTE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

WINDOWS = 20
"""Steps are averaged over so many windows of the run for the strong line."""


def plot_losses(found: Training, path: Path) -> None:
    """Writes three panels that share the loss axis."""
    draws = [
        lambda axes: _panel(axes, found, "steps", [range(1, len(run.loss) + 1) for run in found.runs]),
        lambda axes: _panel(axes, found, "seconds", [list(accumulate(run.time_s)) for run in found.runs]),
        lambda axes: _panel(axes, found, "MB sent by all ranks", [_sent_MB(run.sent_B) for run in found.runs]),
    ]
    task = found.runs[0].task
    write_figure(path, f"{task.model}, batch {task.batch}, {found.runs[0].ranks} ranks", *draws, size=(12.0, 4.0))


def _panel(axes: Axes, found: Training, label: str, places: Sequence[Sequence[float]]) -> None:
    """One panel: the mean of neighbours strong, the losses behind it faint."""
    for number, (run, x) in enumerate(zip(found.runs, places, strict=True)):
        color = PALETTE[number % len(PALETTE)]
        axes.plot(x, run.loss, color=color, alpha=0.25, linewidth=0.8)
        axes.plot(x, _smoothed(run.loss), color=color, label=run.method)
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
