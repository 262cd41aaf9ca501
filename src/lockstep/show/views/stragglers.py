"""`lockstep stragglers`: what waiting for slow workers costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_frac, format_time
from lockstep.show.views.parts import bars
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import make_figure, times_on
from lockstep.show.views.parts.terminal import heading, indented, small_print, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.simulate.failures.stragglers import StragglerCost


def render(found: StragglerCost, out: Console) -> None:
    """Prints the cost."""
    out.print(Text(_title(found), style="bold"))
    how = "exactly" if found.exact else "simulated"
    out.print(
        f"A step takes {format_time(found.mean_step_s, 4)} ({how}), "
        f"{found.amplification:.3g} times one worker's mean of {format_time(found.mean_worker_s)} before communication."
    )
    heading(out, "Step time")
    low, high = found.ci95
    rows = [
        ("mean", format_time(found.mean_step_s, 4), how),
        (
            "simulated",
            format_time(found.simulated_mean_s, 4),
            f"{format_time(low, 4)} to {format_time(high, 4)} (95 %)",
        ),
        ("median", format_time(found.p50_s, 4), ""),
        ("p95", format_time(found.p95_s, 4), "95 % of steps are shorter"),
        ("p99", format_time(found.p99_s, 4), "99 % of steps are shorter"),
        ("without waiting", format_time(found.asynchronous_s, 4), "as many gradients from workers that never wait"),
    ]
    if found.any_above_frac is not None:
        rows.append(("above", format_frac(found.any_above_frac), "probability that any worker computes for longer"))
    if found.slowest_slow_frac is not None:
        rows.append(("slowest", format_frac(found.slowest_slow_frac), "of steps, one of the always slow workers"))
    indented(out, table([("", "left"), ("time", "right"), ("", "text")], rows))
    paid = found.paid
    heading(out, "Cost of the mitigation")
    costs = [
        ("workers", f"{found.used} of {found.launched} gradients count"),
        (
            "communication",
            f"{format_time(found.comm_s)} per step, {format_frac(found.comm_s / found.mean_step_s)} of it",
        ),
        ("duplicated work", format_frac(paid.duplicated_frac)),
        ("lost gradients", format_frac(paid.lost_frac)),
        ("staleness", f"up to {paid.stale_steps:g} steps"),
        ("steps between averages", str(paid.steps_between_averages)),
    ]
    indented(out, table([("", "left"), ("", "text")], costs))
    small_print(out, "Assumptions", found.assumptions, len(found.assumptions))


def _title(found: StragglerCost) -> str:
    return f"{format_frac(1 - found.efficiency_frac)} of worker time is wasted"


def plot_stragglers(found: StragglerCost) -> Figure:
    """How long steps take, next to one worker alone and to workers that never wait."""
    times = {
        "one worker, mean": (found.mean_worker_s, bars.GREY),
        "without waiting": (found.asynchronous_s, bars.GREEN),
        "half of steps within": (found.p50_s, bars.BLUE),
        "a step, mean": (found.mean_step_s, bars.BLUE),
        "95 % of steps within": (found.p95_s, bars.ORANGE),
        "99 % of steps within": (found.p99_s, bars.RED),
    }

    def draw(axes: Axes) -> None:
        values, colours = zip(*times.values(), strict=True)
        bars.plain(axes, list(times), values, format_time, colours=colours)
        times_on(axes.xaxis)
        axes.set_xlabel(f"time of a step of {found.workers:,} workers, communication included")

    return make_figure(_title(found), draw, size=(9.0, 3.6))


COMMAND = Command(
    examples=(
        "lockstep stragglers --workers 256 --law lognormal:mean=50ms,cv=0.3 --mitigation backup:8",
        "lockstep stragglers --workers 16 --law exponential:mean=1s --mitigation bounded:4 --slow 1",
    ),
    render=render,
    picture=plot_stragglers,
    doing="simulating workers",
    figures=("mean_step_s", "efficiency_frac", "amplification", "p95_s"),
)
