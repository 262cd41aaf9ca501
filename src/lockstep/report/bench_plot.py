"""Time over size for every implementation, or over work for every kernel, with spreads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.measure.bench import CollectiveBench
from lockstep.measure.kernels import DeviceBench
from lockstep.report.figure import write_figure
from lockstep.report.timeline_plot import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = (("o", "-"), ("s", "--"), ("^", ":"))


def plot_bench(found: CollectiveBench | DeviceBench, path: Path) -> None:
    """Writes the picture; the ending of `path` chooses the format."""
    if isinstance(found, CollectiveBench):
        title = f"{found.op} on {found.ranks} ranks, {found.backend}: median and quartiles"
        write_figure(path, title, lambda axes: _collective(found, axes))
    else:
        write_figure(path, f"{found.name}, {found.dtype}: median and range", lambda axes: _device(found, axes))


def _collective(found: CollectiveBench, axes: Axes) -> None:
    records = found.records()
    for place, name in enumerate(dict.fromkeys(record["algorithm"] for record in records)):
        rows = [record for record in records if record["algorithm"] == name]
        sizes = [row["size_B"] for row in rows]
        time_us = [row["time_s"] * 1e6 for row in rows]
        spread = [
            [(row["time_s"] - row["q25_s"]) * 1e6 for row in rows],
            [(row["q75_s"] - row["time_s"]) * 1e6 for row in rows],
        ]
        _spread_line(axes, place, name, sizes, time_us, spread)
    axes.set(xscale="log", yscale="log", xlabel="size, bytes", ylabel="time, microseconds")
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _spread_line(
    axes: Axes, place: int, name: str, x: list[float], middle: list[float], spread: list[list[float]]
) -> None:
    """The line of the `place`-th name: another colour, and once these are used up another marker and dash."""
    turn, colour = divmod(place, len(PALETTE))
    marker, dash = MARKERS[turn % len(MARKERS)]
    axes.errorbar(x, middle, spread, marker=marker, linestyle=dash, capsize=3, color=PALETTE[colour], label=name)


def _device(found: DeviceBench, axes: Axes) -> None:
    rows = [row.to_dict() for row in found.rows]
    for place, name in enumerate(dict.fromkeys(row["kernel"] for row in rows)):
        ours = [row for row in rows if row["kernel"] == name]
        work = [row["flops"] or row["size_B"] or row["repeats"] for row in ours]
        middle = [row["time_s"] * 1e6 for row in ours]
        spread = [
            [(row["time_s"] - row["min_s"]) * 1e6 for row in ours],
            [(row["max_s"] - row["time_s"]) * 1e6 for row in ours],
        ]
        _spread_line(axes, place, name, work, middle, spread)
    axes.set(xscale="log", yscale="log", xlabel="FLOPs, or bytes where there are none", ylabel="time, microseconds")
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
