"""The data of the view of a search's space, which `space.js` draws: a head, one chunk of points per grid, the front.

A layout is written as `Layout` writes it: the texts of its fields in order. Every chunk has for each field the texts
that occur and a column of places in them, so that a quarter of a million layouts are small.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.base.units import SIZE_STEPS, TIME_STEPS
from lockstep.decide.planner.points import FITS, points
from lockstep.show.verbs.words.plan_file import layout_options
from lockstep.show.views.page.columns import packed
from lockstep.show.views.page.shown import DIGITS, UNITS, as_shown

if TYPE_CHECKING:
    from lockstep.decide.planner.points import Points
    from lockstep.decide.planner.result import Plan
    from lockstep.decide.planner.software import Software
    from lockstep.decide.planner.space import Space
    from lockstep.describe.hardware import Cluster
    from lockstep.price.layout import Job, Layout

FIELDS: dict[str, tuple[tuple[str, ...], str]] = {
    "tp": (("tp",), "tp1"),
    "cp": (("cp",), "cp1"),
    "ep": (("ep",), "ep1"),
    "etp": (("etp",), "etp as tp"),
    "pp": (("pp",), "pp1"),
    "dp": (("dp",), "dp1"),
    "micro_batch": (("micro_batch",), ""),
    "zero": (("zero",), ""),
    "schedule": (("schedule", "vpp", "pp"), "no stages"),
    "stages": ((), "even stages"),
    "recompute": (("recompute",), "no recomputation"),
    "sequence_parallel": (("sequence_parallel",), "no sp"),
    "shard": (("shard",), "all replicas"),
}
"""What `Layout.texts` writes -> columns of a grid that decide it, and what a legend says where nothing is written."""
STATED = ("cp", "ep", "zero", "recompute", "sequence_parallel")
"""Fields whose default is a choice like any other."""
MOST, MOST_B = 250_000, 450_000
"""Layouts of a file, and bytes of their text: what a megabyte has room for next to pictures and a timeline."""
WHY = ("", "memory", "host memory")
"""What a layout exceeds, by the codes of `Points.why`; those after them are the places in `refusals` of a chunk."""


def space_form(plan: Plan, most: int = MOST, most_B: float = math.inf) -> Json:
    """The whole space of a plan, or of a larger one `most` layouts, in at most `most_B` bytes of JSON.

    Where it is larger, numbers have a digit less, and then fewer layouts are kept.
    """
    job, cluster, software = plan.job, plan.cluster, plan.software
    found = list(_points(job, cluster, plan.findings.space, software))
    kept, digits = _most(found, most), DIGITS
    chunks = [chunk_form(some, digits) for some in kept]
    while (size_B := len(json.dumps(chunks))) > most_B and (most := sum(map(len, kept))) > 1:
        if digits == DIGITS:
            digits -= 1
        else:
            kept = _most(found, max(1, int(min(0.9, most_B / size_B) * most)))
        chunks = [chunk_form(some, digits) for some in kept]
    return {
        "head": head_form(job, cluster, digits, software),
        "chunks": chunks,
        "found": found_form(plan, digits) | _counts(found, kept, software),
    }


def _points(job: Job, cluster: Cluster, space: Space, software: Software | None) -> Iterator[Points]:
    """What a search chooses from, with what its software cannot run."""
    return points(job, cluster, space, None if software is None else software.refuses(job))


def _counts(found: list[Points], kept: list[Points], software: Software | None) -> Json:
    """How many points are not drawn, and how many layouts the software can run."""
    run = None if software is None else sum(int((some.why == FITS).sum()) for some in found)
    return {"left_out": sum(map(len, found)) - sum(map(len, kept)), "run": run}


def _most(found: list[Points], most: int) -> list[Points]:
    """At most so many points: those that fit before those that do not, the fastest of either first."""
    if sum(map(len, found)) <= most:
        return found
    why = np.concatenate([some.why for some in found])
    order = np.lexsort((np.concatenate([some.step_time_s for some in found]), why > 0))
    kept = np.zeros(len(why), dtype=bool)
    kept[order[:most]] = True
    ends = np.cumsum([len(some) for some in found])
    return [some.only(part) for some, part in zip(found, np.split(kept, ends[:-1]), strict=True) if part.any()]


def space_messages(
    job: Job, cluster: Cluster, space: Space, software: Software | None = None, most: int = MOST
) -> Iterator[Json]:
    """The same piece by piece, for a page that draws while the search runs: chunks, and counts at the end.

    Of a space of more than `most` points the first ones are drawn until the search is over, then the `most` best again.
    """
    found: list[Points] = []
    for some in _points(job, cluster, space, software):
        found.append(some)
        counted = sum(map(len, found))
        yield {"chunk": chunk_form(some)} if counted <= most else {"counted": counted}
    kept = _most(found, most)
    if kept is not found:
        yield {"again": True}
        yield from ({"chunk": chunk_form(some)} for some in kept)
    yield {"counts": _counts(found, kept, software)}


def head_form(job: Job, cluster: Cluster, digits: int = DIGITS, software: Software | None = None) -> Json:
    """What is known before anything is searched."""
    return {
        "model": job.model.name,
        "devices": job.devices,
        "device": cluster.device.name,
        "capacity_B": cluster.device.memory_B,
        "fields": [{"name": name, "absent": absent} for name, (_, absent) in FIELDS.items()],
        "why": WHY,
        "software": "" if software is None else software.name,
        "digits": digits,
        "units": UNITS,
    }


def found_form(plan: Plan, digits: int = DIGITS) -> Json:
    """What a search has found: the layout chosen, the front, and what was rejected before it was timed."""
    best = plan.best
    return {
        "best": _point(best.layout, best.step_time_s, float(best.memory.total_B), digits),
        "front": [_point(one.layout, one.step_time_s, one.memory_B, digits) for one in plan.findings.front],
        "evaluated": plan.findings.evaluated,
        "feasible": plan.findings.feasible,
        "rejected": plan.rejected,
    }


def _point(layout: Layout, step_time_s: float, memory_B: float, digits: int) -> Json:
    """A layout with its numbers as those of the points."""
    return {
        "layout": str(layout),
        "step_time_s": float(as_shown(np.array([step_time_s]), TIME_STEPS, digits)[0]),
        "memory_B": float(as_shown(np.array([memory_B]), SIZE_STEPS, digits)[0]),
    }


def chunk_form(some: Points, digits: int = DIGITS) -> Json:
    """The points of one grid."""
    texts, words, columns = [], [], []
    for name, (keys, _) in FIELDS.items():
        _, first, index = np.unique(_codes(some, keys), return_index=True, return_inverse=True)
        different = some.grid.layouts(some.places[first])
        texts.append([layout.texts()[name] for layout in different])
        words.append([_words(layout, keys) for layout in different])
        columns.append(packed(index))
    return {
        "points": len(some),
        "step_time_s": packed(as_shown(some.step_time_s, TIME_STEPS, digits)),
        "memory_B": packed(as_shown(some.memory_B, SIZE_STEPS, digits)),
        "why": packed(some.why),
        "refusals": some.refusals,
        "texts": texts,
        "words": words,
        "columns": columns,
    }


def _words(layout: Layout, keys: tuple[str, ...]) -> Json:
    """The keywords that ask for these fields of a layout, with those of a default that a planner would else choose."""
    differs, every = layout_options(layout), layout.to_dict()
    staged = ("schedule", "vpp") if layout.pp > 1 else ()
    return {key: every[key] for key in keys if key in differs or key in (*STATED, *staged)}


def _codes(some: Points, keys: tuple[str, ...]) -> Array:
    """One number for every combination of the columns that decide a text."""
    code = np.zeros(len(some), dtype=np.int64)
    for key in keys:
        values = some.field(key)
        code = code * (int(values.max(initial=0)) + 1) + values
    return code
