"""`lockstep support`: what answers rest on, by device, training software and number format."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

from lockstep.base.units import format_frac
from lockstep.show.views.parts import bars
from lockstep.show.views.parts.bars import BLUE, GREEN
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import FAINT, make_figure
from lockstep.show.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.decide.planner.support import Support
    from lockstep.show.verbs.support import Matrix

KNOWN = ("measured", "fitted")
MEANING = {
    "measured": "published steps, none of them fitted to",
    "fitted": "published steps, some of them fitted to",
    "extrapolated": "nothing published; rates of the datasheet and of the device's curve",
    "none": "no unit for the format, or nobody runs the software there",
}


def render(found: Matrix, out: Console) -> None:
    """Prints what was published, in lines for one device or software and in words for all, then the rest by device."""
    out.print(_title(found))
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


def _title(found: Matrix) -> str:
    counts = found.counts
    return ", ".join(f"{counts[level]:,} {level}" for level in MEANING if level in counts)


COLOURS = {"measured": GREEN, "fitted": BLUE, "extrapolated": "#DDDDDD", "none": FAINT}


def plot_support(found: Matrix) -> Figure:
    """Devices against software, or software against formats where the device is one, by what is known best of each."""
    devices = list(dict.fromkeys(row.device for row in found.rows))
    several = len(devices) > 1
    best: dict[tuple[str, str], Support] = {}
    for row in found.rows:
        place = (row.device, row.stack) if several else (row.stack, row.dtype)
        if place not in best or _rank(row) < _rank(best[place]):
            best[place] = row
    down, across = (list(dict.fromkeys(place[at] for place in best)) for at in (0, 1))
    if several:
        down = [name for name in down if any(best[place].level in KNOWN for place in best if place[0] == name)]

    def draw(axes: Axes) -> None:
        for (one, other), row in best.items():
            if one not in down or row.level == "none":
                continue
            x, y = across.index(other), down.index(one)
            axes.barh(y, 0.92, left=x - 0.46, height=0.86, color=COLOURS[row.level])
            if row.level in KNOWN:
                text = format_frac(row.error_frac or 0.0, 2) + _star(row)
                axes.text(x, y, text, ha="center", va="center", fontsize=7, color="white")
        bars.rows(axes, down)
        axes.set_xticks(range(len(across)), across, rotation=60, ha="right", fontsize=8)
        axes.tick_params(axis="x", length=0)
        axes.set_xlim(-0.6, len(across) - 0.4)
        axes.set_xlabel("median error of published steps; * some fitted to; grey: extrapolated")

    title = f"What answers rest on: {_title(found)}"
    return make_figure(title, draw, size=(2.6 + 0.42 * max(14, len(across)), 2.2 + 0.26 * max(4, len(down))))


def _rank(row: Support) -> tuple[int, float]:
    return list(MEANING).index(row.level), row.error_frac or 0.0


COMMAND = Command(
    examples=("lockstep support", "lockstep support h100-sxm", "lockstep support --stack torchtitan --json"),
    render=render,
    picture=plot_support,
    lists=False,
)
