"""`lockstep compare`: two runs next to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from lockstep.base.units import format_count, format_frac, format_size, format_time
from lockstep.decide.planner.comparison import STEPS
from lockstep.show.views.parts import bars
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import INK, make_figure, times_on
from lockstep.show.views.parts.reading import PART_WORDS, mfu_column, warn
from lockstep.show.views.parts.terminal import bar, heading, indented, small_print, table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.base.types.plain import Json
    from lockstep.decide.planner.comparison import Comparison

ASSUMPTIONS = 4
LEAST_FRAC = 1e-3
"""Parts that differ by less than this share of A's step are one row together."""
MINUS, GREATER = "-", "+"


def render(found: Comparison, out: Console) -> None:
    """Prints the comparison."""
    style = "bold yellow" if found.inconclusive else "bold green"
    out.print(Text(_verdict(found), style=style))
    for name, side in (("A", found.a), ("B", found.b)):
        out.print(f"{name}  {side.title}")
    if not found.same:
        out.print(_interval(found))
    for name, side in (("A", found.a), ("B", found.b)):
        if not side.fits:
            held, has = format_size(side.total_B or 0.0), format_size(side.capacity_B or 0.0)
            out.print(Text(f"{name} does not fit: {held} of {has} per device.", style="red"))
    for said in found.left_out:
        warn(said, out)
    if found.changed:
        heading(out, "Settings that differ")
        rows = ([one["setting"].replace("_", "-"), _setting(one["a"]), _setting(one["b"])] for one in found.changed)
        indented(out, table([("", "left"), ("A", "text"), ("B", "text")], rows))
    heading(out, "Where the difference comes from", _per(found))
    _parts(found, out)
    if found.memory:
        heading(out, "Memory", "fullest device")
        _memory(found, out)
    heading(out, "Results")
    indented(out, table([("", "left"), ("A", "right"), ("B", "right")], _results(found)))
    small_print(out, "Assumptions", found.assumptions(), ASSUMPTIONS)


def _verdict(found: Comparison) -> str:
    said = found.verdict()
    return said[0].upper() + said[1:]


def _interval(found: Comparison) -> str:
    """Between what the difference lies, and what makes most of it."""
    ends = " to ".join(f"{100 * one:+.1f} %" for one in (found.interval.low, found.interval.high))
    causes = [part_words(one) for one in found.causes]
    mark = "; " if any("," in one for one in causes) else ", "
    mostly = f" Mostly {mark.join(causes)}." if len(found.parts) > 1 else ""
    level = format_frac(found.interval.level_frac)
    return f"Difference: {100 * (found.ratio - 1):+.1f} %, {ends} in {level} of cases.{mostly}"


def _per(found: Comparison) -> str:
    """What the seconds are for."""
    of = "of a step" if found.a.unit == STEPS else f"per {format_count(found.a.units)} {found.a.unit}, a step of A"
    return f"exposed seconds {of}"


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ",".join(map(str, value)) or "-"
    return "-" if value is None else str(value)


def shown_parts(found: Comparison) -> list[Json]:
    """Parts of at least LEAST_FRAC of A's step in either, what differs most first; the rest as one row."""
    least_s = LEAST_FRAC * found.a.step_time_s
    rows = sorted(found.parts, key=lambda row: -abs(row["difference_s"]))
    kept = [row for row in rows if max(row["a_s"], row["b_s"]) >= least_s]
    rest = [row for row in rows if row not in kept]
    if rest:
        sums = {name: sum(row[name] for row in rest) for name in ("a_s", "b_s", "difference_s")}
        kept.append({"part": f"{len(rest)} smaller part{'s' * (len(rest) > 1)}", **sums})
    return kept


def part_words(part: str) -> str:
    """A part in words: one of a prediction, or of what traces show."""
    if part in PART_WORDS:
        return PART_WORDS[part]
    from lockstep.show.views.parts.diagnosis import words

    return words(part)


def _parts(found: Comparison, out: Console) -> None:
    """A line per part, and their sum."""
    shown = shown_parts(found)
    most_s = max(abs(row["difference_s"]) for row in shown) or 1.0
    rows: list[Sequence[str | Text]] = [
        (
            part_words(row["part"]),
            format_time(row["a_s"]),
            format_time(row["b_s"]),
            signed(row["difference_s"], format_time),
            bar(abs(row["difference_s"]) / most_s),
        )
        for row in shown
    ]
    b_s = found.scale * found.b.step_time_s
    rows.append(
        ("total", format_time(found.a.step_time_s), format_time(b_s), signed(found.difference_s, format_time), "")
    )
    titles = [("part", "left"), ("A", "right"), ("B", "right"), ("difference", "right"), ("", "left")]
    indented(out, table(titles, rows))


def signed(value: float, show: Callable[[float], str]) -> str:
    """A difference with its sign."""
    return show(0.0) if value == 0 else f"{GREATER if value > 0 else MINUS}{show(abs(value))}"


def _memory(found: Comparison, out: Console) -> None:
    rows = [
        (row["part"], format_size(row["a_B"]), format_size(row["b_B"]), signed(row["difference_B"], format_size))
        for row in found.memory
    ]
    a_B, b_B = found.a.total_B or 0.0, found.b.total_B or 0.0
    rows.append(("total", format_size(a_B), format_size(b_B), signed(b_B - a_B, format_size)))
    if found.a.capacity_B and found.b.capacity_B:
        rows.append(("device has", format_size(found.a.capacity_B), format_size(found.b.capacity_B), ""))
    indented(out, table([("category", "left"), ("A", "right"), ("B", "right"), ("difference", "right")], rows))


def _results(found: Comparison) -> list[list[str]]:
    sides, unit = (found.a, found.b), found.a.unit
    rows = [
        ["step", *(format_time(side.step_time_s) for side in sides)],
        [f"{unit}/s", *(format_count(side.tokens_per_s) for side in sides)],
        ["devices", *(f"{side.devices:,}" for side in sides)],
        [f"{unit}/s per device", *(format_count(side.tokens_per_s / side.devices) for side in sides)],
    ]
    used = [side.utilisation for side in sides if side.utilisation is not None]
    if len(used) == len(sides):
        note, cells = mfu_column(used)
        rows.append([note or "MFU", *cells])
    if unit == STEPS:
        return rows
    dollars = ["-" if one.cost_per_token is None else f"{one.cost_per_token * 1e6:.3g}" for one in sides]
    return [*rows, [f"$/M{unit[:-1]}", *dollars]]


GIB = 2.0**30


def plot_comparison(found: Comparison) -> Figure:
    """The difference by part with the interval of the whole, and the memory of both."""
    draws = [lambda axes: _draw_parts(found, axes)]
    if found.memory:
        draws.append(lambda axes: _draw_memory(found, axes))
    return make_figure(_verdict(found), *draws, size=(13.0, 4.5) if len(draws) > 1 else (8.0, 4.5))


def _draw_parts(found: Comparison, axes: Axes) -> None:
    """A bar to the right for what B takes more of, one to the left for what it takes less of; the sum below."""
    rows = shown_parts(found)
    names = [part_words(row["part"]) for row in rows] + ["whole step"]
    values = [row["difference_s"] for row in rows] + [found.difference_s]
    for place, value in enumerate(values):
        axes.barh(place, value, color=bars.RED if value > 0 else bars.BLUE, height=0.6)
    ends = [found.a.step_time_s * end for end in (found.interval.low, found.interval.high)]
    axes.plot(ends, [len(rows)] * 2, color=INK, linewidth=1.5)
    axes.plot(ends, [len(rows)] * 2, "|", color=INK, markersize=9)
    axes.axvline(0.0, color=INK, linewidth=0.8)
    axes.axhline(len(rows) - 0.5, color="#BBBBBB", linewidth=0.8)
    reach = max(1e-12, *map(abs, values), *map(abs, ends))
    for place, value in enumerate(values):
        right = value >= 0 if place < len(rows) else True
        at = max(value, 0.0) if right else min(value, 0.0)
        at = max(at, ends[1]) if place == len(rows) else at
        text = f" {signed(value, format_time)} "
        axes.text(at, place, text, va="center", ha="left" if right else "right", fontsize=8)
    bars.rows(axes, names)
    level = format_frac(found.interval.level_frac)
    axes.set(
        xlim=(-1.35 * reach, 1.35 * reach),
        xlabel=f"B takes less | B takes more, {_unit(found)}; line: {level} interval",
    )
    times_on(axes.xaxis)


def _unit(found: Comparison) -> str:
    return "a step" if found.a.unit == STEPS else f"per {format_count(found.a.units)} {found.a.unit}"


def _draw_memory(found: Comparison, axes: Axes) -> None:
    """What fills the fullest device of each, and what it has."""
    sides = (found.a, found.b)
    sizes = {row["part"]: (row["a_B"] / GIB, row["b_B"] / GIB) for row in found.memory}
    most = max((side.total_B or 0.0) / GIB for side in sides)
    room = 1.2 * max(1.0, *((side.capacity_B or 0.0) / GIB / most for side in sides))
    ends = [format_size(side.total_B or 0.0) for side in sides]
    bars.stacked(axes, ["A", "B"], sizes, ends, colours=bars.MEMORY_COLOURS, inches=4.8, room=room)
    for place, side in enumerate(sides):
        if side.capacity_B:
            axes.plot([side.capacity_B / GIB] * 2, [place - 0.4, place + 0.4], color=INK, linewidth=1.5)
    axes.set_xlabel("memory of the fullest device, GiB; upright line: what the device has")


COMMAND = Command(
    examples=(
        "lockstep compare llama3-70b 'tp=8 pp=2' -c dgx-h100:8 --batch 512 --tp 4 --pp 4 --zero 1",
        "lockstep compare plan.yaml cluster=dgx-h200:8 --plot difference.png",
        "lockstep compare case:bloom-176b case:gpt3-175b-megatron --html difference.html",
        "lockstep compare step.capture other.capture",
    ),
    more="A and B are plan files, case studies, models with --cluster and options of estimate, or B is a change of A. "
    "The parts of the difference add up to it.",
    render=render,
    picture=plot_comparison,
    figures=("difference_frac", "difference_s", "inconclusive"),
)
