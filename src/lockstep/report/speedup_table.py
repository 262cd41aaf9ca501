"""Speed-up for a person: the best number of workers, and the exact curve beside the laws."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lockstep.campaigns import SpeedUp
from lockstep.hardware import Cluster
from lockstep.report.terminal import heading, indented, small_print, table
from lockstep.units import format_frac, format_time

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
