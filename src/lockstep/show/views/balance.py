"""`lockstep balance`: a batch over workers of different speed and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_count, format_frac, format_time
from lockstep.show.views.parts.bars import BLUE, GREY
from lockstep.show.views.parts.bars import rows as named_rows
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import INK, make_figure, times_on
from lockstep.show.views.parts.terminal import bar, heading, indented, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.simulate.failures.stragglers import Balance


_TITLES = [("worker", "right"), ("samples/s", "right"), ("equal", "right"), ("balanced", "right"), ("weight", "right")]
_TITLES += [("idle", "right"), ("busy", "left")]
ROWS = 16


def render(found: Balance, out: Console) -> None:
    """Prints the split."""
    out.print(Text(_title(found), style="bold"))
    fits = "" if found.static_fits else ", which do not fit in memory"
    out.print(
        f"{format_time(found.balanced_s)} per step of {format_count(found.batch)} samples; "
        f"{format_time(found.static_s)} with equal shares{fits}."
    )
    more = f"first {ROWS} of {len(found.shares)}" if len(found.shares) > ROWS else ""
    heading(out, "Workers", more)
    weights, idle_frac = found.weights, found.idle_frac
    rows: list[list[str | Text]] = [
        [str(i), format_count(found.speeds[i]), str(found.static_shares[i]), str(found.shares[i]),
         f"{weights[i]:.4f}", format_frac(idle_frac[i], 2), bar(1 - idle_frac[i])]
        for i in range(min(ROWS, len(found.shares)))
    ]  # fmt: skip
    indented(out, table(_TITLES, rows))
    from lockstep.simulate.failures.stragglers import gradient_variance

    weighted, unweighted = gradient_variance(found.shares)
    noise = f"{unweighted / weighted:.3g} times the variance of weighting by samples"
    heading(out, "Weigh gradients by samples", f"a plain mean of the workers has {noise}")


def _title(found: Balance) -> str:
    return f"{found.speedup:.3g} times faster than equal shares"


DRAWN = 32
THIN = 0.38


def plot_balance(found: Balance) -> Figure:
    """How long each worker computes with equal shares and with balanced ones."""
    workers = range(min(DRAWN, len(found.shares)))
    names = [f"worker {i}, {format_count(found.speeds[i])} samples/s" for i in workers]

    def draw(axes: Axes) -> None:
        for shares, shift, colour, step_s, name in (
            (found.static_shares, -0.2, GREY, found.static_s, "equal"),
            (found.shares, 0.2, BLUE, found.balanced_s, "balanced"),
        ):
            places = [i + shift for i in workers]
            axes.barh(places, [shares[i] / found.speeds[i] for i in workers], height=THIN, color=colour, label=name)
            axes.axvline(step_s, color=INK, linestyle=":", linewidth=1)
            axes.text(step_s, -0.6, f"{name}: {format_time(step_s)} ", fontsize=8, ha="right", va="bottom")
            for i in workers:
                axes.text(0.0, i + shift, f" {shares[i]:,}", fontsize=7, va="center", color="white")
        named_rows(axes, names)
        axes.set_ylim(len(names) - 0.4, -1.2)
        axes.set(
            xlim=(0, 1.05 * max(found.static_s, found.balanced_s)), xlabel="time to compute a step; in bars: samples"
        )
        times_on(axes.xaxis)

    return make_figure(_title(found), draw, size=(9.0, 1.6 + 0.4 * max(3, len(names))))


COMMAND = Command(
    examples=(
        "lockstep balance --speeds 4x310,4x125 --batch 1024",
        "lockstep balance --speeds 310,310,125 --batch 256 --memory 80GB,40GB,40GB --sample-memory 500MB",
    ),
    more="The exit code is 1 when memory cannot hold it.",
    render=render,
    picture=plot_balance,
    figures=("balanced_s", "static_s", "speedup"),
)
