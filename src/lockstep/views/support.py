"""`lockstep support`: what answers rest on, by device, training software and number format."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

from lockstep.units import format_frac
from lockstep.views.parts.command import Command
from lockstep.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.planner.support import Support
    from lockstep.verbs.support import Matrix

KNOWN = ("measured", "fitted")
MEANING = {
    "measured": "published steps, none of them fitted to",
    "fitted": "published steps, some of them fitted to",
    "extrapolated": "nothing published; rates of the datasheet and of the device's curve",
    "none": "no unit for the format, or nobody runs the software there",
}


def render(found: Matrix, out: Console) -> None:
    """Prints what was published, in lines for one device or software and in words for all, then the rest by device."""
    counts = found.counts
    out.print(", ".join(f"{counts[level]:,} {level}" for level in MEANING if level in counts))
    known = [row for row in found.rows if row.level in KNOWN]
    several = len({row.device for row in found.rows}) > 1 and len({row.stack for row in found.rows}) > 1
    if known:
        heading(out, "Published", "median error when nothing of that software is fitted to; * fitted to some steps")
        if several:
            indented(out, table([("device", "left"), ("software and format", "text")], _in_words(known)))
        else:
            titles = [("device", "left"), ("software", "left"), ("format", "left"), ("steps", "right")]
            indented(out, table([*titles, ("error", "right")], (_line(row) for row in known)))
    rest = [row for row in found.rows if row.level == "extrapolated"]
    if rest:
        heading(out, "Extrapolated", "typical error of the device's curve")
        indented(out, table([("error", "left"), ("devices", "text")], _by_error(rest)))
    heading(out, "Levels")
    indented(out, table([("", "left"), ("", "text")], MEANING.items()))


def _line(row: Support) -> list[str]:
    return [row.device, row.stack, row.dtype + _star(row), str(row.rows), format_frac(row.error_frac or 0.0, 2)]


def _star(row: Support) -> str:
    return "*" if row.level == "fitted" else ""


def _in_words(rows: Iterable[Support]) -> Iterable[list[str]]:
    """A line for each device with its software, formats and errors."""
    for device, group in groupby(rows, key=lambda row: row.device):
        said = []
        for stack, formats in groupby(group, key=lambda row: row.stack):
            errors = (f"{row.dtype}{_star(row)} {format_frac(row.error_frac or 0.0, 2)}" for row in formats)
            said.append(f"{stack} {', '.join(errors)}")
        yield [device, "; ".join(said)]


def _by_error(rows: Iterable[Support]) -> Iterable[list[str]]:
    """A line for each error with the devices that it is expected on."""
    devices = {row.device: row.error_frac or 0.0 for row in rows}
    for error in sorted(set(devices.values())):
        yield [format_frac(error, 2), ", ".join(device for device, one in devices.items() if one == error)]


COMMAND = Command(
    examples=(
        "lockstep support",
        "lockstep support h100-sxm",
        "lockstep support --stack torchtitan --json",
    ),
    render=render,
    lists=False,
)
