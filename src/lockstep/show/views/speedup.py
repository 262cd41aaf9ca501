"""`lockstep speedup`: Amdahl, Gustafson, and the exact curve of a step that talks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from lockstep.base.units import format_frac, format_time
from lockstep.decide.campaigns import SpeedUp, amdahl, gustafson
from lockstep.describe.hardware import Cluster
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import PALETTE, make_figure
from lockstep.show.views.parts.terminal import heading, indented, small_print, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console


ROWS = 14
FASTEST = "the fastest across levels"


def render(found: SpeedUp, out: Console) -> None:
    """Prints the curve."""
    best = found.row(found.best_workers)
    more = ", the most tried" if best["workers"] == found.tried[-1] else ": more are slower"
    out.print(
        Text(
            f"Fastest on {best['workers']:,} workers{more}: {best['speedup']:,.4g} times one worker", style="bold green"
        )
    )
    out.print(
        f"A step takes {format_time(best['time_s'])} there, at an efficiency of"
        f" {format_frac(best['efficiency_frac'])}; it is at least 50 % up to {found.workers_at(0.5):,} workers."
    )
    heading(out, "Speed-up", f"exchange: {found.exchange or FASTEST}; serial share {format_frac(found.serial_frac)}")
    numbers = found.numbers()
    step = max(1, -(-len(numbers) // ROWS))
    kept = sorted({*numbers[::step], found.best_workers, numbers[-1]})
    columns = [("workers", "right"), ("step", "right"), ("speed-up", "right"), ("efficiency", "right")]
    columns += [("Amdahl", "right"), ("Gustafson", "right"), ("as if serial", "right")]
    indented(out, table(columns, (_row(found, number) for number in kept)))
    if isinstance(found.network, Cluster):
        small_print(out, "Assumptions", [f"workers fill whole units of {found.network.name}'s levels"], 1)


def _row(found: SpeedUp, workers: int) -> list[Text]:
    row = found.row(workers)
    style = "bold green" if workers == found.best_workers else ""
    cells = [f"{workers:,}", format_time(row["time_s"]), f"{row['speedup']:,.4g}", format_frac(row["efficiency_frac"])]
    laws = [f"{row['amdahl']:,.4g}", f"{row['gustafson']:,.4g}", _serial(row["karp_flatt_frac"])]
    return [*(Text(cell, style=style) for cell in cells), *(Text(law, style="dim") for law in laws)]


def _serial(frac: float) -> str:
    """Above 1, where workers are slower together than one alone, no serial share explains the time."""
    return format_frac(frac) if frac <= 1 else "-"


POINTS = 200


def plot_speedup(found: SpeedUp) -> Figure:
    """The curves."""
    tried = found.tried
    workers = np.unique(tried[np.searchsorted(tried, np.geomspace(1, tried[-1], POINTS).round())])

    def draw(axes: Axes) -> None:
        axes.plot(workers, workers, color="#cccccc", linestyle=":", label="ideal")
        if found.serial_frac:
            axes.plot(workers, gustafson(workers, found.serial_frac), color=PALETTE[2], label="Gustafson")
            axes.plot(workers, amdahl(workers, found.serial_frac), color=PALETTE[1], label="Amdahl")
        axes.plot(workers, found.speedup(workers), color=PALETTE[0], label=f"exact, {found.exchange or FASTEST}")
        best = found.best_workers
        axes.plot([best], [float(found.speedup(best))], "o", color=PALETTE[4], label=f"best: {best:,} workers")
        axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="speed-up")
        axes.legend(fontsize=8, frameon=False)

    return make_figure("Speed-up of a data-parallel step", draw)


COMMAND = Command(
    examples=(
        "lockstep speedup --compute 10s --size 200MB --latency 10us --bandwidth 25GB/s --plot speedup.png",
        "lockstep speedup --compute 10s --size 200MB --latency 10us --bandwidth 25GB/s --exchange parameter-server",
    ),
    render=render,
    picture=plot_speedup,
    figures=("best_speedup", "best_workers", "half_efficiency_workers"),
)
