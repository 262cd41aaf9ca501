"""A timeline as a picture: one row per lane, computations coloured by label, messages and collectives in greys of blue.

Labels such as F0, F1, B0 share a colour by their letters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from lockstep.base.errors import BadInput
from lockstep.base.units import format_frac, format_time
from lockstep.show.views.parts.figure import ON_BAR, PALETTE, is_dark, new_figure
from lockstep.show.views.parts.terminal import heading, indented, small_print, table
from lockstep.simulate.program import Kind, Timeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console


# Okabe-Ito colours, told apart with every common colour vision (Okabe and Ito 2008).
COMMUNICATION = {
    Kind.SEND: "#56B4E9", Kind.RECV: "#A9D8F5", Kind.REDUCE: "#7A7A7A", Kind.COPY: "#BBBBBB",
    Kind.BARRIER: "#333333",
}  # fmt: skip
COLLECTIVES = ("#56B4E9", "#1B4F72", "#A9D8F5", "#2E86C1")
"""Blues of collectives, by name."""
TIME_UNITS = ((1.0, "seconds"), (1e-3, "milliseconds"), (1e-6, "microseconds"), (1e-9, "nanoseconds"))
MAX_SPANS = 200_000
MOST_IN_LANE = 120
"""Spans of a lane that can be told apart in the width of a picture."""
SHOWN_SPANS = 48
"""Of a lane with more, as many at the beginning and at the end."""


MOST_ROWS = 64
"""Lanes of a table."""


def render_timeline(timeline: Timeline, out: Console) -> None:
    """Prints the summary, and how busy each lane is."""
    out.print(Text(str(timeline), style="bold"))
    count = np.bincount(timeline.program.lane)
    busy = [(lane, busy_s) for lane, busy_s in timeline.busy_s().items() if busy_s > 0]
    names, streams = timeline.rank_names, timeline.program.streams
    heading(out, "Lanes", f"first {MOST_ROWS} of {len(busy):,}" if len(busy) > MOST_ROWS else "")
    rows = (
        (
            names[rank] if names else f"rank {rank}",
            stream,
            f"{count[rank * len(streams) + streams.index(stream)]:,}",
            format_time(busy_s),
            format_frac(busy_s / timeline.makespan_s),
        )
        for (rank, stream), busy_s in busy[:MOST_ROWS]
    )
    titles = [("", "left"), ("lane", "left"), ("operations", "right"), ("busy", "right"), ("of the makespan", "right")]
    indented(out, table(titles, rows))
    small_print(out, "Assumptions", timeline.assumptions, len(timeline.assumptions))


def plot_timeline(
    timeline: Timeline, *, title: str = "", streams: Sequence[str] | None = None, max_lanes: int = 64
) -> Figure:
    """The lanes that do anything, of the streams named."""
    busy_s = timeline.busy_s()
    lanes = [lane for lane in timeline.lanes if busy_s[lane] > 0 and (streams is None or lane[1] in streams)][
        :max_lanes
    ]
    height, windows = 1.2 + 0.32 * max(3, len(lanes)), _windows(timeline, lanes)
    figure = new_figure((12, 0.3 + height * len(windows)))
    panels = figure.subplots(len(windows), 1, squeeze=False)[:, 0]
    for axes, window in zip(panels, windows, strict=True):
        draw_timeline(timeline, axes, lanes, window=window)
    said = ("", f"; the first {SHOWN_SPANS} spans of a lane and the last")[len(windows) - 1]
    panels[0].set_title((title or _summary(timeline)) + said, loc="left", fontsize=10)
    return figure


def _windows(timeline: Timeline, lanes: Sequence[tuple[int, str]]) -> list[tuple[float, float] | None]:
    """Seconds to draw: all, or beginning and end where a lane has so many spans that they would be a barcode."""
    program = timeline.program
    names = [rank * len(program.streams) + program.streams.index(stream) for rank, stream in lanes]
    counts = np.bincount(program.lane[timeline.end_s > timeline.start_s], minlength=max(names, default=0) + 1)
    if not names or max(counts[names]) <= MOST_IN_LANE:
        return [None]
    busiest = np.flatnonzero(
        (program.lane == max(names, key=lambda name: counts[name])) & (timeline.end_s > timeline.start_s)
    )
    first_s, last_s = np.sort(timeline.end_s[busiest]), np.sort(timeline.start_s[busiest])
    return [(0.0, float(first_s[SHOWN_SPANS - 1])), (float(last_s[-SHOWN_SPANS]), timeline.makespan_s)]


def draw_timeline(
    timeline: Timeline,
    axes: Axes,
    lanes: Sequence[tuple[int, str]],
    longest_s: float | None = None,
    window: tuple[float, float] | None = None,
) -> float:
    """Draws the spans of `lanes`, top to bottom, into existing axes; returns the seconds in a unit of its time axis.

    The unit fits the makespan, or `longest_s` for pictures that share a scale. `window`: from and to which second.
    """
    begin_s, end_s = window or (0.0, timeline.makespan_s)
    program = timeline.program
    shown_s = longest_s or timeline.makespan_s
    factor, unit = next(((f, u) for f, u in TIME_UNITS if shown_s >= f), TIME_UNITS[-1])
    lane_row = {rank * len(program.streams) + program.streams.index(s): row for row, (rank, s) in enumerate(lanes)}
    ids = np.flatnonzero(np.isin(program.lane, list(lane_row)) & (timeline.end_s > timeline.start_s))
    if len(ids) > MAX_SPANS:
        raise BadInput(f"{len(ids)} spans are too many for a picture (at most {MAX_SPANS}); write a trace instead")
    families = [_family(timeline, i) for i in ids.tolist()]
    colours = _colours(timeline, ids.tolist(), families)
    inside = (timeline.end_s[ids] > begin_s) & (timeline.start_s[ids] < end_s)
    ids, families = ids[inside], [family for family, one in zip(families, inside, strict=True) if one]
    for row, (rank, _) in enumerate(lanes):
        if rank % 2:
            axes.axhspan(row - 0.5, row + 0.5, color="#F4F4F4", linewidth=0, zorder=0)
    by_style: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for i, family in zip(ids.tolist(), families, strict=True):
        start, end = max(begin_s, timeline.start_s[i]) / factor, min(end_s, timeline.end_s[i]) / factor
        by_style.setdefault((lane_row[int(program.lane[i])], family), []).append((start, end - start))
    for (row, family), spans in by_style.items():
        axes.broken_barh(spans, (row - 0.42, 0.84), facecolors=colours[family], edgecolor="white", linewidth=0.4)
    _write_labels(timeline, axes, ids.tolist(), lane_row, factor, colours, families, (begin_s, end_s))
    axes.set_yticks(range(len(lanes)), [f"rank {rank} {stream}" for rank, stream in lanes], fontsize=8)
    axes.set_ylim(len(lanes) - 0.4, -0.6)
    axes.set_xlim(begin_s / factor, end_s / factor or 1)
    axes.set_xlabel(f"time, {unit}")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    handles = [axes.plot([], [], "s", color=colour, markersize=7, label=name)[0] for name, colour in colours.items()]
    if handles and begin_s == 0.0:
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8)
    return factor


def _summary(timeline: Timeline) -> str:
    return (
        f"{timeline.source}: makespan {format_time(timeline.makespan_s)}, "
        f"{format_frac(timeline.utilization_frac)} of it computing"
    )


def _family(timeline: Timeline, i: int) -> str:
    """What shares a colour: the letters of a computation's label, the name of a collective, else the kind."""
    program = timeline.program
    kind = Kind(int(program.kind[i]))
    if kind == Kind.COMPUTE:
        text = program.name(int(program.label[i]))
        return re.split(r"[\d\s]", text, maxsplit=1)[0] or text or "compute"
    return program.name(int(program.op[i])) or kind.name.lower()


def _colours(timeline: Timeline, ids: list[int], families: list[str]) -> dict[str, str]:
    """Colour of each family, in order of first appearance in the program."""
    colours: dict[str, str] = {}
    computations = collectives = 0
    for i, family in zip(ids, families, strict=True):
        if family in colours:
            continue
        kind = Kind(int(timeline.program.kind[i]))
        if kind == Kind.COMPUTE:
            colours[family] = PALETTE[computations % len(PALETTE)]
            computations += 1
        elif kind == Kind.COLLECTIVE:
            colours[family] = COLLECTIVES[collectives % len(COLLECTIVES)]
            collectives += 1
        else:
            colours[family] = COMMUNICATION[kind]
    # The legend lists computations first.
    return dict(sorted(colours.items(), key=lambda item: item[1] not in PALETTE))


def _write_labels(
    timeline: Timeline, axes: Axes, ids: list[int], lane_row: dict[int, int], factor: float, colours: dict[str, str],
    families: list[str], window: tuple[float, float],
) -> None:  # fmt: skip
    """Labels inside the spans that are wide enough for them (about 150 characters fit in the width)."""
    program = timeline.program
    for i, family in zip(ids, families, strict=True):
        text = program.name(int(program.label[i]))
        start_s, end_s = max(window[0], float(timeline.start_s[i])), min(window[1], float(timeline.end_s[i]))
        if not text or end_s - start_s < (window[1] - window[0]) * len(text) / 150:
            continue
        middle = (start_s + end_s) / 2 / factor
        axes.text(
            middle, lane_row[int(program.lane[i])], text, ha="center", va="center", fontsize=6.5,
            color="white" if is_dark(colours[family]) else ON_BAR, clip_on=True, parse_math=False,
        )  # fmt: skip
