"""`lockstep balance`: a batch over workers of different speed and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.units import format_count, format_frac, format_time
from lockstep.views.parts.command import Command
from lockstep.views.parts.terminal import bar, heading, indented, table

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.failures.stragglers import Balance


_TITLES = [("worker", "right"), ("samples/s", "right"), ("equal", "right"), ("balanced", "right"), ("weight", "right")]
_TITLES += [("idle", "right"), ("busy", "left")]
ROWS = 16


def render(found: Balance, out: Console) -> None:
    """Prints the split."""
    out.print(Text(f"{found.speedup:.3g} times faster than equal shares", style="bold"))
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
    from lockstep.failures.stragglers import gradient_variance

    weighted, unweighted = gradient_variance(found.shares)
    noise = f"{unweighted / weighted:.3g} times the variance of weighting by samples"
    heading(out, "Weigh gradients by samples", f"a plain mean of the workers has {noise}")


COMMAND = Command(
    examples=(
        "lockstep balance --speeds 4x310,4x125 --batch 1024",
        "lockstep balance --speeds 310,310,125 --batch 256 --memory 80GB,40GB,40GB --sample-memory 500MB",
    ),
    more="The exit code is 1 when memory cannot hold it.",
    render=render,
    figures=("balanced_s", "static_s", "speedup"),
)
