"""Pictures of a captured step: what tensors hold while it runs, and what the host and the streams do.

Kernels that follow one another are one bar where they are of one kind and the gap between them is too short to be seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.units import format_size
from lockstep.describe.captured import CATEGORIES, COLLECTIVES
from lockstep.show.views.parts.figure import FAINT, INK, PALETTE, QUIET, make_figure
from lockstep.simulate.program.timeline import LAUNCHES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lockstep.base.types.arrays import Array
    from lockstep.describe.captured import Captured
    from lockstep.simulate.program import Timeline

GIB = 2**30
KINDS = {
    "products": PALETTE[0],
    "attention": PALETTE[4],
    "other kernels": PALETTE[1],
    "collectives": "#56B4E9",
    "host": QUIET,
}
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution", "_grouped_mm", "_scaled_mm")
SEEN_FRAC = 1 / 1500
"""Of the step, the shortest gap that is drawn."""


def plot_lanes(timeline: Timeline, title: str) -> Figure:
    """The host and the streams of a captured step."""
    busy = [stream for (_, stream), busy_s in timeline.busy_s().items() if busy_s > 0]
    return make_figure(title, lambda axes: _lanes(axes, timeline, busy), size=(12.0, 1.6 + 0.35 * max(3, len(busy))))


def plot_step(found: Captured, timeline: Timeline, begins_s: Array, title: str) -> Figure:
    """What tensors hold while the step runs, above the host and the streams."""
    busy = [stream for (_, stream), busy_s in timeline.busy_s().items() if busy_s > 0]
    return make_figure(
        title,
        lambda axes: _memory(axes, found, begins_s, timeline.makespan_s),
        lambda axes: _lanes(axes, timeline, busy),
        size=(12.0, 5.2 + 0.25 * len(busy)),
        rows=2,
    )


def _memory(axes: Axes, found: Captured, begins_s: Array, makespan_s: float) -> None:
    """Bytes of tensors by category over the step."""
    held = found.live_B[:, : len(begins_s)] / GIB
    names = [name for name, one in zip(CATEGORIES, held, strict=True) if one.any()]
    rows = [one for one in held if one.any()]
    axes.stackplot(begins_s * 1e3, rows, labels=names, colors=PALETTE, step="post", linewidth=0)
    at = min(found.peak_at, len(begins_s) - 1)
    axes.axvline(begins_s[at] * 1e3, color=INK, linestyle=":", linewidth=0.8)
    label = f"  {format_size(found.peak_B)} of tensors, {found.peak_operation.name.removeprefix('aten.')}  "
    late = begins_s[at] > makespan_s / 2
    axes.set_ylim(0.0, 1.12 * found.peak_B / GIB)
    axes.text(begins_s[at] * 1e3, axes.get_ylim()[1], label, va="top", ha="right" if late else "left", fontsize=8)
    axes.set_xlim(0.0, makespan_s * 1e3)
    axes.set_ylabel("tensors, GiB")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)


def _lanes(axes: Axes, timeline: Timeline, streams: list[str]) -> None:
    """Bars by kind, a row for the host and each stream."""
    drawn: dict[str, str] = {}
    for row, stream in enumerate(streams):
        for kind, spans in _bars(timeline, stream):
            axes.broken_barh(spans, (row - 0.4, 0.8), facecolors=KINDS[kind], linewidth=0)
            drawn[kind] = KINDS[kind]
    axes.set_yticks(range(len(streams)), streams, fontsize=8)
    axes.set_ylim(len(streams) - 0.4, -0.6)
    axes.set_xlim(0.0, timeline.makespan_s * 1e3)
    axes.set_xlabel("time, milliseconds")
    axes.set_facecolor(FAINT)
    handles = [axes.plot([], [], "s", color=drawn[kind], label=kind)[0] for kind in KINDS if kind in drawn]
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)


def _bars(timeline: Timeline, stream: str) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """(start, length) in milliseconds of what a stream does, by kind."""
    program = timeline.program
    ids = np.flatnonzero((program.stream == program.streams.index(stream)) & (timeline.end_s > timeline.start_s))
    kinds = np.array([_kind(program.name(int(program.label[i])), stream) for i in ids])
    for kind in KINDS:
        mine = ids[kinds == kind]
        if len(mine):
            yield kind, _joined(timeline.start_s[mine], timeline.end_s[mine], SEEN_FRAC * timeline.makespan_s)


def _joined(start_s: Array, end_s: Array, gap_s: float) -> list[tuple[float, float]]:
    """Spans in their order, those with a short gap between them as one."""
    first = np.flatnonzero(np.concatenate(([True], start_s[1:] - end_s[:-1] > gap_s)))
    last = np.concatenate((first[1:], [len(start_s)])) - 1
    return [(1e3 * a, 1e3 * (b - a)) for a, b in zip(start_s[first].tolist(), end_s[last].tolist(), strict=True)]


def _kind(label: str, stream: str) -> str:
    packet = label.partition(".")[0]
    if stream == LAUNCHES:
        return "host"
    if label in COLLECTIVES:
        return "collectives"
    return "products" if packet in PRODUCTS else "attention" if "attention" in packet else "other kernels"
