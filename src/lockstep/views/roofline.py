"""`lockstep roofline`: communication roofline, one per level of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.units import format_bandwidth, format_count, format_frac, format_size
from lockstep.views.parts.command import Command
from lockstep.views.parts.layout_columns import layout_words
from lockstep.views.parts.terminal import bar, heading, indented, table

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.planner.roofline import Roofline, RooflineLevel


_TITLES = [("level", "left"), ("moves", "right"), ("mostly", "left"), ("at", "right"), ("intensity", "right")]
_TITLES += [("ridge", "right"), ("bound by", "left"), ("traffic", "right"), ("", "left")]


def render(found: Roofline, out: Console) -> None:
    """Prints the roofline."""
    job = found.job
    out.print(Text(found.regime().capitalize(), style="bold"))
    out.print(f"{job.model.name} on {job.devices} x {found.cluster.device.name}: {layout_words(found.layout)}")
    heading(out, "Levels", "one device, one step; FLOP/B; traffic over compute")
    indented(out, table(_TITLES, (_row(level) for level in found.levels)))
    now = _tokens(job.step_units)
    heading(out, "Critical batch", f"{job.unit} at which data-parallel traffic is hidden; now {now}")
    rows = ((level.name, _tokens(level.critical_batch), level.critical_why) for level in found.levels[1:])
    indented(out, table([("level", "left"), (job.unit, "right"), ("", "text")], rows))


def _row(level: RooflineLevel) -> list[str | Text]:
    intensity = level.intensity_flop_per_B
    return [
        level.name,
        format_size(level.bytes_B),
        level.mostly if level.bytes_B else "",
        format_bandwidth(level.achieved_Bps),
        "" if intensity is None else format_count(intensity),
        format_count(level.ridge_flop_per_B),
        Text(level.bound, style="green" if level.bound == "compute" else "red"),
        format_frac(level.share),
        bar(level.share, 8),
    ]


def _tokens(number: int | None) -> str:
    return "-" if number is None else format_count(number)


COMMAND = Command(
    examples=("lockstep roofline llama3-8b -c dgx-h100:16 --batch 512 --tp 4 --zero 1 --sequence-parallel",),
    render=render,
    figures=("compute_s", "batch_tokens"),
)
