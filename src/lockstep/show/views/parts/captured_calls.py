"""A captured step beside a profile of the same program: the verdict, where the step goes, and which calls differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_frac, format_time
from lockstep.show.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from lockstep.explain.captured_calls import CallRow, CallsBeside

SHARES = {"kernels": "kernels", "collectives": "collectives alone", "neither": "neither runs"}
ROWS = 10
WIDE = 24
LITTLE_FRAC = 0.5
"""Of the kernel time: where less is of calls that match one by one, the table by module says little."""


def render_calls(found: CallsBeside, out: Console) -> None:
    """Prints whether the step is as the captured one is priced, and what differs."""
    step, slower = found.step, found.measured_s > found.step.high_s
    title = "As priced" if found.as_predicted else f"{'Slower' if slower else 'Faster'} than priced"
    good = found.as_predicted and not found.apart
    out.print(Text(f"{title} for the captured step.", style="bold green" if good else "bold yellow"))
    out.print(
        f"{format_time(found.measured_s, 4)} per step; {step.program} on one {step.cluster.device.name} is priced at "
        f"{format_time(step.time.step_time_s)}, {format_time(step.low_s)} to {format_time(step.high_s)}."
    )
    for one in found.apart:
        out.print(f"{one[0].upper()}{one[1:]}.", style="yellow")
    heading(out, "Where the step goes", "seconds of a step")
    rows = [(SHARES[name], *_times(*each)) for name, each in found.shares.items()]
    indented(out, table([("", "left"), *COLUMNS], rows))
    more = len(found.rows) - ROWS
    heading(out, "Operations that differ most", f"{more} more with --json" if more > 0 else "")
    shown = [
        (one.operation, f"{one.calls:,}", f"{one.profiled:,.4g}", *_times(one.measured_s, one.priced_s))
        for one in found.rows[:ROWS]
    ]
    indented(out, table([("operation", "line"), ("captured", "right"), ("ran", "right"), *COLUMNS], shown))
    _places(found.places, found.matched_frac, out)


COLUMNS = [("measured", "right"), ("priced", "right"), ("difference", "right")]


def _times(measured_s: float, priced_s: float) -> tuple[str, str, str]:
    apart_s = measured_s - priced_s
    return format_time(measured_s), format_time(priced_s), f"{'+' if apart_s > 0 else ''}{format_time(apart_s)}"


def _end(module: str) -> str:
    """A name of a module, whose end says most."""
    return module if len(module) <= WIDE else f"…{module[1 - WIDE :]}"


def _places(places: Sequence[CallRow], matched_frac: float, out: Console) -> None:
    """Which modules they belong to, of operations that match call by call."""
    if matched_frac < LITTLE_FRAC:
        share = format_frac(matched_frac)
        out.print(f"Calls match one by one in {share} of the kernel time, too little to say which modules differ.")
        return
    heading(out, "Modules that differ most", f"of {format_frac(matched_frac)} of the kernel time, matched call by call")
    rows = [
        (_end(one.module), one.phase, one.operation, format_time(one.measured_s), format_time(one.priced_s))
        for one in places[:ROWS]
    ]
    columns = [("module", "left"), ("phase", "left"), ("operation", "line"), *COLUMNS[:2]]
    indented(out, table(columns, rows))
