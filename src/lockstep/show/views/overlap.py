"""`lockstep overlap`: gradient buckets beside the backward pass."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_frac, format_size, format_time
from lockstep.show.views.parts import bars
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import PALETTE, make_figure, sizes_on, times_on
from lockstep.show.views.parts.terminal import bar, heading, indented, small_print, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.show.verbs.overlap import Overlap
    from lockstep.simulate.parallel.data import BucketRow


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


def plot_buckets(found: Overlap) -> Figure:
    """The curve."""
    rows = found.sweep.rows
    best = found.sweep.best

    def draw(axes: Axes) -> None:
        sizes_B = [row.bucket_B for row in rows]
        step = best.step
        axes.plot(sizes_B, [float(row.step.step_s) for row in rows], ".-", color=PALETTE[0], label="step")
        axes.plot([best.bucket_B], [float(step.step_s)], "o", color=PALETTE[4], label="best")
        axes.axhline(found.sweep.no_overlap_s, color="#999999", linestyle="--", label="no overlap")
        both_s = max(float(step.compute_s), float(step.comm_s))
        axes.axhline(both_s, color="#999999", linestyle=":", label="max(compute, communication): a bound")
        axes.set(xscale="log", xlabel="bucket", ylabel="step")
        sizes_on(axes.xaxis)
        times_on(axes.yaxis)
        axes.legend(fontsize=8, frameon=False)

    layers = len(found.layers.backward_s)
    where = f"{layers:,} layer{'s' if layers > 1 else ''} on {found.ranks:,} ranks"
    title = f"{where}: {format_time(float(best.step.step_s), 4)} per step with buckets of {format_size(best.bucket_B)}"
    return make_figure(title, draw if len(rows) > 1 else partial(_plot_one, found))


def _plot_one(found: Overlap, axes: Axes) -> None:
    """A single cut into buckets: its step next to what it could be."""
    step = found.sweep.best.step
    times = {
        "no overlap": (found.sweep.no_overlap_s, bars.GREY),
        "step": (float(step.step_s), bars.BLUE),
        "computing": (float(step.compute_s), bars.GREEN),
        "communication": (float(step.comm_s), bars.ORANGE),
        "of it exposed": (float(step.exposed_comm_s), bars.RED),
    }
    values, colours = zip(*times.values(), strict=True)
    bars.plain(axes, list(times), values, format_time, colours=colours)
    axes.set_xlabel("time, seconds")
    times_on(axes.xaxis)


COMMAND = Command(
    examples=(
        "lockstep overlap --layers 96 --backward 480ms --gradients 700MB --ranks 256 --latency 10us "
        "--bandwidth 25GB/s --sweep --plot buckets.png",
        "lockstep overlap --layers 32x3ms:400MB,1x2ms:500MB --bucket-size 200MB --ranks 64 -c dgx-h100:8",
    ),
    render=render,
    picture=plot_buckets,
    figures=("rows.0.step_s", "rows.0.exposed_comm_s", "rows.0.overlap_frac"),
)
