"""The data of the timeline view, which `timeline.js` draws: spans, exposed pieces and memory of one or two timelines.

A form is {"timelines": [...], "units": ...}; the second timeline, a measurement, is drawn below the first. Spans are
sorted by lane and start. A communication is exposed where its rank computes nothing meanwhile, as in `Timeline`; the
exposed pieces of all spans of a rank cover exactly its `exposed_s`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.types.arrays import Array, Floats
from lockstep.base.types.plain import Json
from lockstep.show.views.page.columns import packed
from lockstep.show.views.page.shown import UNITS
from lockstep.simulate.program import Kind
from lockstep.simulate.program.timeline import COMPUTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.simulate.program import Timeline

MOST_RANKS = 64
"""Ranks drawn; the others are counted."""
MOST_IN_FILE = 10_000
"""Operations of each timeline that a file has room for: at most 200 kB."""
MEANINGS = {
    "F": "forward", "B": "backward", "I": "gradients of inputs", "W": "gradients of weights",
    "matmul": "matrix products",
}  # fmt: skip
"""Of the letters that passes of a pipeline are named by, and of classes of kernels."""


def timeline_form(
    *timelines: Timeline, stands_for: Sequence[int] = (), capacity_B: float = 0.0, most: int | None = None,
    held: Sequence[Json] = (),
) -> Json:  # fmt: skip
    """One timeline, or a predicted and a measured one.

    `stands_for`: how many devices each rank stands for; `capacity_B`: the memory of a device; `most` operations are
    drawn, of the first ranks; of a single rank with more, the earliest. `held`: what the memory of the first timeline's
    ranks holds (`held.py`).
    """
    ranks = min(_ranks(one, most) for one in timelines)
    drawn = [_timeline(one, stands_for, ranks, most) for one in timelines]
    for rank in drawn[0]["ranks"] if held else ():
        rank |= held[rank["rank"]]
    return {
        "timelines": drawn,
        "capacity_B": capacity_B,
        "units": UNITS,
    }


def _ranks(timeline: Timeline, most: int | None) -> int:
    """How many ranks are drawn."""
    if most is None:
        return MOST_RANKS
    upto = np.cumsum(np.bincount(timeline.program.rank, minlength=1))
    return int(np.clip(np.searchsorted(upto, most, "right"), 1, MOST_RANKS))


def _timeline(timeline: Timeline, stands_for: Sequence[int], ranks: int, most: int | None) -> Json:
    program = timeline.program
    busy_s = timeline.busy_s()
    lanes = [lane for lane in timeline.lanes if lane[0] < ranks and busy_s[lane] > 0]
    codes = np.array([rank * len(program.streams) + program.streams.index(stream) for rank, stream in lanes])
    ids = np.flatnonzero(np.isin(program.lane, codes) & (timeline.end_s > timeline.start_s))
    ids = ids[np.lexsort((timeline.start_s[ids], program.lane[ids]))]
    lane, kind = np.searchsorted(codes, program.lane[ids]), program.kind[ids]
    texts, families, title, family = _titles(timeline, ids)
    pieces, exposed_s = _exposed(timeline, ids)
    computes = {int(one) for one in lane[np.isin(kind, COMPUTES)]}
    until_s = _until(timeline.start_s[ids], most)
    early = timeline.start_s[ids] < until_s
    pieces = pieces[:, early[pieces[0].astype(np.int64)]]
    piece_lane, left_out = lane[pieces[0].astype(np.int64)], int((~early).sum())
    ids, lane, title, family = ids[early], lane[early], title[early], family[early]
    return {
        "source": timeline.source,
        "makespan_s": timeline.makespan_s,
        "operations": len(program),
        "left_out": max(0, program.ranks - ranks),
        "left_out_spans": left_out,
        "ranks": [_rank(timeline, rank, stands_for, until_s) for rank in sorted({rank for rank, _ in lanes})],
        "lanes": [{"rank": rank, "name": name, "moves": at not in computes} for at, (rank, name) in enumerate(lanes)],
        "titles": texts,
        "families": families,
        "spans": {
            "lane": packed(lane),
            "title": packed(title),
            "family": packed(family),
            "start_s": packed(timeline.start_s[ids]),
            "duration_s": packed(timeline.end_s[ids] - timeline.start_s[ids]),
            "size_B": packed(program.size_B[ids]),
            "exposed_s": packed(exposed_s[early]),
        },
        "exposed": {
            "lane": packed(piece_lane),
            "start_s": packed(pieces[1]),
            "duration_s": packed(pieces[2] - pieces[1]),
        },
    }  # fmt: skip


def _until(start_s: Floats, most: int | None) -> float:
    """Before when spans start that are drawn: all, or at most so many of the earliest."""
    if most is None or len(start_s) <= most:
        return np.inf
    return float(np.sort(start_s)[most])


def _rank(timeline: Timeline, rank: int, stands_for: Sequence[int], until_s: float) -> Json:
    """What a rank is called, and the bytes that it uses from each moment on, as far as it is drawn."""
    names = timeline.rank_names
    held_B = {name: float(ranks[rank]) for name, ranks in timeline.held_B.items()}
    times_s, used_B = timeline.memory_B(rank)
    times_s, used_B = times_s[times_s < until_s], used_B[times_s < until_s]
    found: Json = {
        "rank": rank,
        "name": names[rank] if names else f"rank {rank}",
        "devices": stands_for[rank] if rank < len(stands_for) else 1,
        "held_B": sum(held_B.values()),
    }
    if len(times_s) or any(held_B.values()):
        found["times_s"] = packed(np.concatenate(([0.0], times_s)))
        found["used_B"] = packed(np.concatenate(([found["held_B"]], used_B)))
    return found


def _titles(timeline: Timeline, ids: Array) -> tuple[list[str], list[Json], Array, Array]:
    """Texts of spans and families of colours, and for each span its place in both lists."""
    program = timeline.program
    keys = np.stack([program.columns[name][ids].astype(np.int64) for name in ("kind", "label", "op")], axis=1)
    different, index = np.unique(keys.reshape(-1, 3), axis=0, return_inverse=True)
    texts, families, family = [], dict[tuple[str, bool], int](), []
    for kind, label, op in different.tolist():
        text = program.name(label) or program.name(op) or Kind(kind).name.lower()
        computes = kind in COMPUTES
        name = text
        if kind == Kind.COMPUTE:
            # A measured kernel has its class besides its name.
            name = program.name(op) or re.sub(r"\d.*", "", text).strip() or text
        texts.append(text)
        family.append(families.setdefault((name, computes), len(families)))
    listed = [{"name": MEANINGS.get(name, name), "computes": computes} for name, computes in families]
    return texts, listed, index.reshape(-1), np.array(family, dtype=np.int64)[index.reshape(-1)]


def _exposed(timeline: Timeline, ids: Array) -> tuple[Floats, Floats]:
    """Rows (place in `ids`, start, end) of what is exposed of each span, and the exposed seconds of each."""
    program, rows, total_s = timeline.program, [np.zeros((3, 0))], np.zeros(len(ids))
    moves = ~np.isin(program.kind[ids], COMPUTES)
    for rank in np.unique(program.rank[ids]).tolist():
        mine = program.rank[ids] == rank
        free = _gaps(timeline, ids[mine & ~moves])
        for place in np.flatnonzero(mine & moves).tolist():
            start, end = timeline.start_s[ids[place]], timeline.end_s[ids[place]]
            low, high = np.searchsorted(free[:, 1], start, "right"), np.searchsorted(free[:, 0], end, "left")
            begin, stop = np.maximum(free[low:high, 0], start), np.minimum(free[low:high, 1], end)
            rows.append(np.stack((np.full(len(begin), float(place)), begin, stop)))
            total_s[place] = (stop - begin).sum()
    return np.concatenate(rows, axis=1), total_s


def _gaps(timeline: Timeline, ids: Array) -> Floats:
    """[gaps, 2]: from when to when none of the operations runs."""
    ids = ids[np.argsort(timeline.start_s[ids], kind="stable")]
    ends = np.concatenate(([0.0], np.maximum.accumulate(timeline.end_s[ids])))
    starts = np.concatenate((timeline.start_s[ids], [max(timeline.makespan_s, float(ends[-1]))]))
    gaps = np.stack((ends, starts), axis=1)
    return gaps[gaps[:, 1] > gaps[:, 0]]
