"""`lockstep fit`: latency and bandwidth of a link from measured times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from lockstep.units import format_bandwidth, format_frac, format_size, format_time
from lockstep.views.parts.command import Command
from lockstep.views.parts.figure import PALETTE, make_figure
from lockstep.views.parts.terminal import heading, indented, small_print, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.measure.fit import Segment
    from lockstep.verbs.fit import Fit


OUTLIERS = 6


def render(answer: Fit, out: Console) -> None:
    """Prints the link, what it rests on, and where it was written."""
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
    if found.assumptions:
        small_print(out, "Assumptions", found.assumptions, len(found.assumptions))


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
    rows = [
        ["latency", format_time(segment.latency_s), f"{latency_low} to {latency_high}"],
        ["bandwidth", rate, rates],
    ]
    if segment.reduce_s_per_B > 0:
        rows.append(["reduction", format_bandwidth(1 / segment.reduce_s_per_B), ""])
    return rows


def plot_fit(answer: Fit) -> Figure:
    """The picture."""
    found = answer.found
    points = found.points.points
    out = set(found.outliers)
    fitted_s = np.array([point.time_s for point in points]) * (1 + found.errors_frac)

    def draw(axes: Axes) -> None:
        names = list(dict.fromkeys((point.op, point.algorithm) for point in points))
        for place, name in enumerate(names):
            here = [i for i, point in enumerate(points) if (point.op, point.algorithm) == name]
            here.sort(key=lambda i: points[i].size_B)
            colour = PALETTE[place % len(PALETTE)]
            kept = [i for i in here if i not in out]
            label = " ".join(part for part in name if part)
            axes.plot(
                [points[i].size_B for i in kept], [points[i].time_s * 1e6 for i in kept], "o", color=colour, label=label
            )
            axes.plot([points[i].size_B for i in here], fitted_s[here] * 1e6, color=colour, label="fitted")
        if out:
            left = [points[i] for i in sorted(out)]
            axes.plot([p.size_B for p in left], [p.time_s * 1e6 for p in left], "x", color="#D55E00", label="outlier")
        for segment in found.segments[1:]:
            axes.axvline(segment.from_B, color="#999999", linestyle=":", linewidth=1)
        axes.set(xscale="log", yscale="log", xlabel="size, bytes", ylabel="time, microseconds")
        axes.legend(fontsize=8, frameon=False)

    title = f"latency {format_time(found.latency_s)}, bandwidth {format_bandwidth(found.bandwidth_Bps)}"
    return make_figure(title, draw)


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
