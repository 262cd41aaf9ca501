"""A measured step and the predicted one: `write_overlay` for Perfetto, `by_stage` for a page.

Measured ranks keep their streams, one lane each, and what overlaps on a stream gets a lane of its own. The predicted
step starts with the measured one. For Perfetto it has the ranks of the same pipelines; on a page both have one rank per
pipeline stage, the measured one that computes longest, as the others wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from lockstep.decide.planner.estimate import Estimate
from lockstep.explain.classes import CLASSES
from lockstep.explain.ranks import all_ranks
from lockstep.explain.replay import as_predicted
from lockstep.explain.seen import Seen
from lockstep.explain.trace import RankTrace
from lockstep.price.layout import coordinates
from lockstep.simulate.program import Kind, ProgramBuilder, Timeline, write_trace

MOST_SPANS = 300_000
"""Of the measured step; ranks beyond are left out."""


def measured_timeline(seen: Seen, step: int | None = None, chosen: Sequence[int | None] = ()) -> Timeline:
    """One step of all ranks as a timeline: by default the first of those used.

    `chosen`: places of traces, in the order of the timeline's ranks, None for one without a trace.
    """
    place = 0 if step is None else seen.steps.index(step)
    rows, moves_only, names = list[tuple[int, int, str, RankTrace]](), dict[str, bool](), list[str]()
    for rank, at in enumerate(chosen or range(len(seen.traces))):
        if at is None:
            names.append("")
            continue
        trace, each = seen.traces[at], seen.partitions[at]
        window, spans = each[place].window, trace.spans
        inside = np.flatnonzero((spans.start_s >= window.start_s) & (spans.start_s < window.end_s))
        if rows and len(rows) + len(inside) > MOST_SPANS:
            break
        names.append(f"rank {rank if trace.rank is None else trace.rank}")
        free: dict[str, float] = {}
        for i in inside.tolist():
            lane, depth = f"stream {int(spans.stream[i])}", 0
            while free.get(named := f"{lane}{f'/{depth}' if depth else ''}", -np.inf) > spans.start_s[i]:
                depth += 1
            free[named] = float(spans.end_s[i])
            moves_only[named] = moves_only.get(named, True) and bool(spans.communicates[i])
            rows.append((i, rank, named, trace))
    zero = min(each[place].window.start_s for each in seen.partitions)
    # Computing first, as predicted lanes have it.
    streams = {named: at for at, named in enumerate(sorted(moves_only, key=lambda one: moves_only[one]))}
    builder = ProgramBuilder(len(names), tuple(streams) or ("stream",))
    groups = -1
    kinds, group = [], []
    for i, _, _, trace in rows:
        moves = bool(trace.spans.communicates[i])
        groups += moves
        kinds.append(Kind.COLLECTIVE if moves else Kind.COMPUTE)
        group.append(groups if moves else -1)
    start = np.array([trace.spans.start_s[i] for i, _, _, trace in rows]) - zero
    end = np.array([trace.spans.end_s[i] for i, _, _, trace in rows]) - zero
    if rows:
        builder.extend(
            np.array(kinds),
            np.array([rank for _, rank, _, _ in rows]),
            stream=np.array([streams[named] for _, _, named, _ in rows]),
            label=np.array([builder.name(_label(trace, i)) for i, _, _, trace in rows]),
            op=np.array([builder.name(_class(trace, i)) for i, _, _, trace in rows]),
            size_B=np.array([trace.spans.size_B[i] for i, _, _, trace in rows]),
            group=np.array(group),
            duration_s=end - start,
        )
    return Timeline(builder.build(), np.maximum(start, 0.0), end, source="measured", rank_names=tuple(names))


def _label(trace: RankTrace, i: int) -> str:
    """A collective by its group and kind, a kernel by its name."""
    spans = trace.spans
    op = trace.name(int(spans.op[i]))
    group = trace.name(int(spans.group[i]))
    return f"{trace.titles.get(group, group)} {op}".strip() if op else trace.name(int(spans.name[i]))


def _class(trace: RankTrace, i: int) -> str:
    """The collective's kind, the kernel's class."""
    op = trace.name(int(trace.spans.op[i]))
    return op or CLASSES[int(trace.spans.kind[i])]


def predicted_timeline(estimate: Estimate, seen: Seen) -> Timeline:
    """The predicted step with all ranks of the pipelines that were measured."""
    one = all_ranks(estimate, [0 if trace.rank is None else trace.rank for trace in seen.traces])
    return replace(as_predicted(one), source="predicted", rank_names=tuple(f"rank {rank}" for rank in one.ranks))


def by_stage(estimate: Estimate, seen: Seen) -> tuple[Timeline, Timeline]:
    """(predicted, measured) step with one rank per pipeline stage; a stage of which no rank was measured is empty."""
    stages, of = estimate.layout.pp, coordinates(estimate.layout)["pp"]
    chosen, longest_s = list[int | None]([None] * stages), [-1.0] * stages
    for place, (trace, each) in enumerate(zip(seen.traces, seen.partitions, strict=True)):
        stage, seconds = int(of[trace.rank or 0]), sum(each[0].compute_s.values())
        if seconds > longest_s[stage]:
            chosen[stage], longest_s[stage] = place, seconds
    return replace(estimate.timeline(), source="predicted"), measured_timeline(seen, chosen=chosen)


def write_overlay(estimate: Estimate, seen: Seen, path: str | Path) -> Timeline:
    """Writes the file, compressed when its name ends in .gz; returns the measured step."""
    measured = measured_timeline(seen)
    write_trace(measured, path, beside=predicted_timeline(estimate, seen))
    return measured
