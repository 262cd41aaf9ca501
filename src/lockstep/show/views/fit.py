"""`lockstep fit`: latency and bandwidth of a link from measured times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from lockstep.base.units import format_bandwidth, format_frac, format_size, format_time
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import PALETTE, make_figure
from lockstep.show.views.parts.terminal import heading, indented, small_print, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.run.fit import LinkFit, Segment
    from lockstep.show.verbs.fit import Fit


OUTLIERS = 6


def render(answer: Fit, out: Console) -> None:
    """Prints the link, what it rests on, and where it was written; of several tables a row each."""
    if answer.others or answer.not_fitted:
        _several(answer, out)
    else:
        _one(answer, out)
    assumptions = tuple(dict.fromkeys(said for found in answer.tables for said in found.assumptions))
    if assumptions:
        small_print(out, "Assumptions", assumptions, len(assumptions))


def _several(answer: Fit, out: Console) -> None:
    """A row for every table of a file with several."""
    number = len(answer.tables) + len(answer.not_fitted)
    out.print(Text(f"{number} tables in {answer.found.points.source}, each fitted on its own", style="bold"))
    heading(out, "Links", "latency of the smallest sizes, bandwidth of the largest")
    rows = []
    for found in answer.tables:
        rates = format_time(found.latency_s), format_bandwidth(found.bandwidth_Bps)
        times = len(found.points.points)
        rows.append((found.points.label, *rates, f"{found.r2:.4f}", f"{times - len(found.outliers)} of {times}"))
    columns = [("table", "left"), *((name, "right") for name in ("latency", "bandwidth", "R2", "times"))]
    indented(out, table(columns, rows))
    for said in answer.not_fitted:
        out.print(f"Not fitted: {said}.")


def _one(answer: Fit, out: Console) -> None:
    found = answer.found
    latency, rate = format_time(found.latency_s), format_bandwidth(found.bandwidth_Bps)
    out.print(Text(f"latency {latency}, bandwidth {rate}", style="bold"))
    kept = len(found.points.points) - len(found.outliers)
    out.print(f"{kept} times of {found.points.source}, R2 {found.r2:.4f} on logarithms; {_left_out(answer)}")
    for place, segment in enumerate(found.segments):
        sizes = f"{format_size(segment.from_B)} to {format_size(segment.to_B)}, {segment.points} times"
        title = "Link" if len(found.segments) == 1 else f"Protocol {place + 1}"
        heading(out, title, sizes)
        indented(out, table([("", "left"), ("", "right"), ("95 %", "left")], _rows(segment)))
    if found.outliers:
        more = len(found.outliers) - OUTLIERS
        heading(out, "Outliers, left out", f"{more} more with --json" if more > 0 else "")
        for i in found.outliers[:OUTLIERS]:
            told = f"{found.points.points[i]}, fitted {format_frac(abs(found.errors_frac[i]), 2)} "
            indented(out, Text(told + ("below" if found.errors_frac[i] < 0 else "above")))
    if answer.path and answer.link_bandwidth_Bps is not None:
        rate = format_bandwidth(answer.link_bandwidth_Bps)
        out.print(f"\nWritten to {answer.path}: level {answer.level}, {rate} per link. Give it as --cluster.")


def _left_out(answer: Fit) -> str:
    known = answer.found.left_out
    if known is None:
        return "too few sizes to leave one out."
    middle, largest = (format_frac(error, 2) for error in known)
    return f"a size left out is predicted within {middle} (median), {largest} (largest)."


def _rows(segment: Segment) -> list[list[str]]:
    low, high = segment.bandwidth_ci95_Bps
    latency_low, latency_high = (format_time(end) for end in segment.latency_ci95_s)
    rate = "-" if segment.bandwidth_Bps is None else format_bandwidth(segment.bandwidth_Bps)
    rates = f"{format_bandwidth(low)} to {'unbounded' if high is None else format_bandwidth(high)}"
    rows = [["latency", format_time(segment.latency_s), f"{latency_low} to {latency_high}"], ["bandwidth", rate, rates]]
    if segment.reduce_s_per_B > 0:
        rows.append(["reduction", format_bandwidth(1 / segment.reduce_s_per_B), ""])
    return rows


def plot_fit(answer: Fit) -> Figure:
    """The picture: measured times and the fitted ones, of every table."""

    def draw(axes: Axes) -> None:
        number = 0
        for found in answer.tables:
            number = _draw_one(axes, found, number, len(answer.tables) > 1)
        axes.set(xscale="log", yscale="log", xlabel="size, bytes", ylabel="time, microseconds")
        axes.legend(fontsize=8, frameon=False)

    found = answer.found
    title = f"latency {format_time(found.latency_s)}, bandwidth {format_bandwidth(found.bandwidth_Bps)}"
    return make_figure(f"{len(answer.tables)} tables" if len(answer.tables) > 1 else title, draw)


def _draw_one(axes: Axes, found: LinkFit, number: int, several: bool) -> int:
    """Draws one fit from the colour `number` on; returns the next one."""
    points, out = found.points.points, set(found.outliers)
    fitted_s = np.array([point.time_s for point in points]) * (1 + found.errors_frac)
    for name in dict.fromkeys((point.op, point.algorithm) for point in points):
        here = [i for i, point in enumerate(points) if (point.op, point.algorithm) == name]
        here.sort(key=lambda i: points[i].size_B)
        colour, kept = PALETTE[number % len(PALETTE)], [i for i in here if i not in out]
        label = found.points.label if several else " ".join(part for part in name if part)
        sizes_B, times_us = [points[i].size_B for i in kept], [points[i].time_s * 1e6 for i in kept]
        axes.plot(sizes_B, times_us, "o", color=colour, label=label)
        axes.plot([points[i].size_B for i in here], fitted_s[here] * 1e6, color=colour, label="fitted")
        number += 1
    if out:
        left = [points[i] for i in sorted(out)]
        axes.plot([p.size_B for p in left], [p.time_s * 1e6 for p in left], "x", color="#D55E00", label="outlier")
    for segment in found.segments[1:]:
        axes.axvline(segment.from_B, color="#999999", linestyle=":", linewidth=1)
    return number


COMMAND = Command(
    examples=(
        "lockstep fit ring.csv --plot fit.png",
        "lockstep fit all_reduce_perf.txt -o my-cluster.yaml --cluster dgx-h100:16",
        "lockstep fit osu_latency.txt",
    ),
    render=render,
    picture=plot_fit,
    lists=False,
)
