"""Bucketed overlap for a person: the best bucket, then a line per size."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console
from rich.text import Text

from lockstep.verbs.overlap import Overlap
from lockstep.parallel.data import BucketRow
from lockstep.report.terminal import bar, heading, indented, small_print, table
from lockstep.units import format_frac, format_size, format_time

_TITLES = [("bucket", "right"), ("buckets", "right"), ("step", "right"), ("exposed", "right"), ("hidden", "right")]
_TITLES += [("", "left")]
ROWS = 14


def render(found: Overlap, out: Console) -> None:
    """Prints the sweep around its best row."""
    sweep = found.sweep
    best = sweep.best
    exposed = format_time(float(best.step.exposed_comm_s))
    title = f"{format_size(best.bucket_B)} buckets: {format_time(float(best.step.step_s), 4)} per step"
    out.print(Text(f"{title}, {exposed} exposed", style="bold"))
    bound, alone = format_time(float(best.step.bound_s), 4), format_time(sweep.no_overlap_s, 4)
    out.print(f"Without overlap {alone}; no ordering of these buckets beats {bound}.")
    rows = _some(sweep.rows)
    note = "" if len(rows) == len(sweep.rows) else f"{len(rows)} of {len(sweep.rows)}; all with --json"
    heading(out, "Bucket sizes", note)
    indented(out, table(_TITLES, (_row(row, row is best) for row in rows)))
    heading(out, "Best possible bucketing", "exact, ignoring interference")
    runs = [f"{len(list(same))} x {layers}" for layers, same in groupby(sweep.optimum_counts)]
    shown = ", ".join(runs[:8]) + (", ..." if len(runs) > 8 else "")
    indented(out, Text(f"{format_time(sweep.optimum_s, 4)} with buckets x layers: {shown}"))
    assumptions = found.to_dict()["assumptions"]
    small_print(out, "Assumptions", assumptions, len(assumptions))


def _some(rows: tuple[BucketRow, ...]) -> list[BucketRow]:
    """At most ROWS rows, evenly chosen by place, the best one among them."""
    if len(rows) <= ROWS:
        return list(rows)
    best = min(range(len(rows)), key=lambda i: float(rows[i].step.step_s))
    places = sorted({best, *(round(i * (len(rows) - 1) / (ROWS - 2)) for i in range(ROWS - 1))})
    return [rows[i] for i in places]


def _row(row: BucketRow, best: bool) -> list[str | Text]:
    step = row.step
    style = "bold green" if best else ""
    return [
        Text(format_size(row.bucket_B), style=style),
        str(row.buckets),
        Text(format_time(float(step.step_s), 4), style=style),
        format_time(float(step.exposed_comm_s)),
        format_frac(float(step.overlap_frac)),
        bar(float(step.overlap_frac)),
    ]
