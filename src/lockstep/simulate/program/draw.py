"""A timeline as text: one row per lane, for small cases in a terminal.

    rank 0 compute │F0━━F1━━F2━━······B0━━━━━━B1━━━━━━
    rank 0 send    │····0───0───0───

A span starts with its label and is filled with ━ (computing) or ─ (communicating); · is idle. Spans narrower than one
character share it: the one that covers most of it shows, ties to the earlier.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

from lockstep.base.units import format_time
from lockstep.simulate.program.program import Kind
from lockstep.simulate.program.timeline import COMPUTES, Timeline

FILLS = {"unicode": ("━", "─", "·", "│", "└", "─"), "ascii": ("=", "-", ".", "|", "+", "-")}
SHORT = {Kind.SEND: ">", Kind.RECV: "<", Kind.REDUCE: "+", Kind.COPY: "c", Kind.BARRIER: "|", Kind.COLLECTIVE: "C"}


def draw(
    timeline: Timeline,
    width: int = 100,
    *,
    streams: Sequence[str] | None = None,
    max_lanes: int = 32,
    style: str = "unicode",
) -> str:
    """Text of at most `width` columns; lanes of `streams` when given, else all on which something takes time."""
    lanes = [lane for lane in timeline.lanes if lane[1] in streams] if streams is not None else _busy(timeline)
    shown = lanes[:max_lanes]
    names = [f"rank {rank} {stream}" for rank, stream in shown]
    margin = min(max((len(name) for name in names), default=0), max(0, width - 12))
    columns = max(10, width - margin - 2)
    bar, corner, rule = FILLS[style][3:]
    lines = [
        f"{name[:margin]:<{margin}} {bar}{_row(timeline, lane, columns, style)}"
        for name, lane in zip(names, shown, strict=True)
    ]
    if len(lanes) > len(shown):
        lines.append(f"{'':<{margin}} {bar}... {len(lanes) - len(shown)} more lanes")
    lines.append(f"{'':<{margin}} {corner}{_axis(timeline.makespan_s, columns, rule)}")
    return "\n".join(lines)


def _busy(timeline: Timeline) -> list[tuple[int, str]]:
    """Lanes on which something takes time; all of them when nothing does."""
    program = timeline.program
    numbers = np.unique(program.lane[timeline.end_s > timeline.start_s]).tolist()
    busy = {(number // len(program.streams), program.streams[number % len(program.streams)]) for number in numbers}
    return [lane for lane in timeline.lanes if lane in busy] or list(timeline.lanes)


def _axis(makespan_s: float, columns: int, rule: str) -> str:
    """0 on the left, the makespan on the right."""
    right = f" {format_time(makespan_s)}"
    return "0 " + rule * max(0, columns - 2 - len(right)) + right


def _row(timeline: Timeline, lane: tuple[int, str], columns: int, style: str) -> str:
    """Characters of one lane, trailing idle time left blank."""
    program = timeline.program
    number = lane[0] * len(program.streams) + program.streams.index(lane[1])
    ids = np.flatnonzero(program.lane == number)
    computing, communicating, idle = FILLS[style][:3]
    cells = [idle] * columns
    if not timeline.makespan_s:
        return ""
    scale = columns / timeline.makespan_s
    best = np.zeros(columns)
    last = 0
    for i in ids.tolist():
        low, high = float(timeline.start_s[i]) * scale, float(timeline.end_s[i]) * scale
        first, stop = _cells(low, high, columns)
        fill = computing if program.kind[i] in COMPUTES else communicating
        text = (_narrow(program.name(int(program.label[i]))) or SHORT.get(Kind(int(program.kind[i])), "")).ljust(
            1, fill
        )
        for place, cell in enumerate(range(first, stop)):
            cover = min(high, cell + 1) - max(low, cell)
            # A cell belongs to whoever covers most of it; equal shares stay with the earlier span.
            if cover > best[cell] + 1e-9:
                best[cell] = cover
                cells[cell] = text[place] if place < len(text) else fill
        last = max(last, stop)
    return "".join(cells[:last])


def _cells(low: float, high: float, columns: int) -> tuple[int, int]:
    """Cells [first, stop) of a span: whole cells by rounding, at least one."""
    first = min(round(low), columns - 1)
    return first, max(first + 1, min(round(high), columns)) if high > low else first


def _narrow(text: str) -> str:
    """The text with only characters one column wide."""
    return "".join(c for c in text if c.isprintable() and unicodedata.east_asian_width(c) not in "WF" and c.isascii())
