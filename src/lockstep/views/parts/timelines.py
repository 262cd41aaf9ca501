"""A timeline as a picture: one row per lane, computations coloured by label, messages and collectives in greys of blue.

Labels such as F0, F1, B0 share a colour by their letters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from lockstep.errors import BadInput
from lockstep.program import Kind, Timeline
from lockstep.units import format_frac, format_time
from lockstep.views.parts.figure import ON_BAR, PALETTE, is_dark, new_figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Okabe-Ito colours, told apart with every common colour vision (Okabe and Ito 2008).
COMMUNICATION = {
    Kind.SEND: "#56B4E9", Kind.RECV: "#A9D8F5", Kind.REDUCE: "#7A7A7A", Kind.COPY: "#BBBBBB",
    Kind.BARRIER: "#333333",
}  # fmt: skip
COLLECTIVES = ("#56B4E9", "#1B4F72", "#A9D8F5", "#2E86C1")
"""Blues of collectives, by name."""
TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
MAX_SPANS = 200_000


def plot_timeline(
    timeline: Timeline, *, title: str = "", streams: Sequence[str] | None = None, max_lanes: int = 64
) -> Figure:
    """The lanes that do anything, of the streams named."""
    busy_s = timeline.busy_s()
    lanes = [lane for lane in timeline.lanes if busy_s[lane] > 0 and (streams is None or lane[1] in streams)][
        :max_lanes
    ]
    figure = new_figure((12, 1.5 + 0.32 * max(3, len(lanes))))
    axes = figure.subplots()
    draw_timeline(timeline, axes, lanes)
    axes.set_title(title or _summary(timeline), loc="left", fontsize=10)
    return figure


def draw_timeline(
    timeline: Timeline, axes: Axes, lanes: Sequence[tuple[int, str]], longest_s: float | None = None
) -> float:
    """Draws the spans of `lanes`, top to bottom, into existing axes; returns the seconds in a unit of its time axis.

    The unit fits the makespan, or `longest_s` for pictures that share a scale.
    """
    program = timeline.program
    shown_s = longest_s or timeline.makespan_s
    factor, unit = next(((f, u) for f, u in TIME_UNITS if shown_s >= f), TIME_UNITS[-1])
    lane_row = {rank * len(program.streams) + program.streams.index(s): row for row, (rank, s) in enumerate(lanes)}
    ids = np.flatnonzero(np.isin(program.lane, list(lane_row)) & (timeline.end_s > timeline.start_s))
    if len(ids) > MAX_SPANS:
        raise BadInput(f"{len(ids)} spans are too many for a picture (at most {MAX_SPANS}); write a trace instead")
    families = [_family(timeline, i) for i in ids.tolist()]
    colours = _colours(timeline, ids.tolist(), families)
    for row, (rank, _) in enumerate(lanes):
        if rank % 2:
            axes.axhspan(row - 0.5, row + 0.5, color="#F4F4F4", linewidth=0, zorder=0)
    by_style: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for i, family in zip(ids.tolist(), families, strict=True):
        start, end = float(timeline.start_s[i]) / factor, float(timeline.end_s[i]) / factor
        by_style.setdefault((lane_row[int(program.lane[i])], family), []).append((start, end - start))
    for (row, family), spans in by_style.items():
        axes.broken_barh(spans, (row - 0.42, 0.84), facecolors=colours[family], edgecolor="white", linewidth=0.4)
    _write_labels(timeline, axes, ids.tolist(), lane_row, factor, colours, families)
    axes.set_yticks(range(len(lanes)), [f"rank {rank} {stream}" for rank, stream in lanes], fontsize=8)
    axes.set_ylim(len(lanes) - 0.4, -0.6)
    axes.set_xlim(0, timeline.makespan_s / factor or 1)
    axes.set_xlabel(f"time [{unit}]")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    handles = [axes.plot([], [], "s", color=colour, markersize=7, label=name)[0] for name, colour in colours.items()]
    if handles:
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
    families: list[str],
) -> None:  # fmt: skip
    """Labels inside the spans that are wide enough for them (about 150 characters fit in the width)."""
    program = timeline.program
    for i, family in zip(ids, families, strict=True):
        text = program.name(int(program.label[i]))
        width_s = float(timeline.end_s[i] - timeline.start_s[i])
        if not text or width_s < timeline.makespan_s * len(text) / 150:
            continue
        middle = float(timeline.start_s[i] + timeline.end_s[i]) / 2 / factor
        axes.text(
            middle, lane_row[int(program.lane[i])], text, ha="center", va="center", fontsize=6.5,
            color="white" if is_dark(colours[family]) else ON_BAR, clip_on=True, parse_math=False,
        )  # fmt: skip
