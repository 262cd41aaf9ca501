"""A fitted link for a person: the constants with their intervals, the protocols, the errors to expect, the outliers."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lockstep.verbs.fit import Fit
from lockstep.measure.fit import Segment
from lockstep.report.terminal import heading, indented, small_print, table
from lockstep.units import format_bandwidth, format_frac, format_size, format_time

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
