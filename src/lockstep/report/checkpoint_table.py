"""Checkpoint intervals for a person: how often to save, the formulas beside each other, where the time goes."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lockstep.reliability import Campaigns, Checkpoint, pattern_overhead_frac
from lockstep.report.terminal import bar, heading, indented, small_print, table
from lockstep.units import format_frac, format_time

ROWS = 7


def render(found: Checkpoint, out: Console) -> None:
    """Prints the interval and its cost."""
    every, overhead = format_time(found.interval_s, 4), format_frac(found.overhead_frac)
    out.print(Text(f"Save every {every} of work: {overhead} more time than the work itself", style="bold"))
    out.print(
        f"Goodput {format_frac(1 / (1 + found.overhead_frac))}; a failure every {format_time(found.mtbf_s)}."
        f" {format_time(found.work_s)} of work take {format_time(found.expected_wall_s, 4)},"
        f" without any failure with probability {_probability(found.no_failure_frac)}."
    )
    pattern = found.pattern
    if pattern.every > 1:
        between = format_time(pattern.costs_s[0])
        full = format_time(pattern.costs_s[-1])
        out.print(f"One checkpoint in {pattern.every} is a full one of {full}; those between take {between}.")
    else:
        heading(out, "Formulas", "overhead of each interval, exact")
        indented(out, table([("", "left"), ("interval", "right"), ("overhead", "right")], _formulas(found)))
    heading(out, "Around it")
    columns = [("interval", "right"), ("overhead", "right"), ("", "left")]
    indented(out, table(columns, _curve(found)))
    if found.simulated is not None:
        _simulated(found.simulated, out)
    small_print(out, "Assumptions", found.assumptions, len(found.assumptions))


def _probability(frac: float) -> str:
    return "below 0.0001" if frac < 1e-4 else f"{frac:.3g}"


def _formulas(found: Checkpoint) -> list[list[str]]:
    rows = []
    for name, interval_s in (("Young", found.young_s), ("Daly", found.daly_s), ("exact", found.exact_s)):
        usable = interval_s > 0 and interval_s >= found.pattern.shortest_work_s * (1 - 1e-12)
        overhead = float(pattern_overhead_frac(found.pattern, interval_s, found.mtbf_s)) if usable else float("nan")
        shown = format_frac(overhead, 4) if usable else "writes overlap"
        rows.append([name, format_time(interval_s, 4), shown])
    return rows


def _curve(found: Checkpoint) -> list[list[str | Text]]:
    """At most ROWS points of the curve, evenly chosen, the interval itself among them."""
    points = found.curve
    here = min(range(len(points)), key=lambda i: abs(points[i][0] - found.interval_s))
    step = max(1, (len(points) - 1) // (ROWS - 1))
    places = sorted({here, *(place for place in range(here % step, len(points), step))})
    most = max(points[place][1] for place in places)
    rows: list[list[str | Text]] = []
    for place in places:
        style = "bold green" if place == here else ""
        interval_s, overhead = points[place]
        cells = [Text(format_time(interval_s), style=style), Text(format_frac(overhead), style=style)]
        rows.append([*cells, bar(overhead / most if most else 0.0)])
    return rows


def _simulated(campaigns: Campaigns, out: Console) -> None:
    """Where the time of the simulated runs goes."""
    low, high = campaigns.overhead.interval_s()
    note = f"{len(campaigns.wall_s):,} runs, {campaigns.failures.mean():.4g} failures each"
    heading(out, "Simulated", note)
    mean = format_frac(campaigns.overhead.mean_s, 4)
    said = f"overhead {mean}, {format_frac(low, 4)} to {format_frac(high, 4)} (95 %)"
    indented(out, Text(said))
    rows: list[list[str | Text]] = [["goodput", format_frac(campaigns.goodput.mean_s), bar(campaigns.goodput.mean_s)]]
    rows += [[name, format_frac(share), bar(share)] for name, share in campaigns.losses_frac().items()]
    indented(out, table([("", "left"), ("of the time", "right"), ("", "left")], rows))
