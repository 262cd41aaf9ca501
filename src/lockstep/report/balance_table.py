"""A split batch for a person: the gain, then a line per worker."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lockstep.failures.stragglers import Balance, gradient_variance
from lockstep.report.terminal import bar, heading, indented, table
from lockstep.units import format_count, format_frac, format_time

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
    weighted, unweighted = gradient_variance(found.shares)
    noise = f"{unweighted / weighted:.3g} times the variance of weighting by samples"
    heading(out, "Weigh gradients by samples", f"a plain mean of the workers has {noise}")
