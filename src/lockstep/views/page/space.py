"""The data of the view of a search's space, which `space.js` draws: a head, one chunk of points per grid, the front.

A layout is written as `Layout` writes it: the texts of its fields in order. Every chunk has for each field the texts
that occur and a column of places in them, so that a quarter of a million layouts are small.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from lockstep.planner import points
from lockstep.types.plain import Json
from lockstep.units import SIZE_STEPS, TIME_STEPS
from lockstep.views.page.columns import packed
from lockstep.views.page.shown import DIGITS, UNITS, as_shown

if TYPE_CHECKING:
    from lockstep.hardware import Cluster
    from lockstep.layout import Job
    from lockstep.planner import Plan, Points, Scored, Space

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
WHY = ("", "memory", "host memory")
"""What a layout exceeds, by the codes of `Points.why`."""


def space_form(plan: Plan) -> Json:
    """The whole space of a plan."""
    job, cluster = plan.job, plan.cluster
    chunks = [chunk_form(some) for some in points(job, cluster, plan.findings.space)]
    return {"head": head_form(job, cluster), "chunks": chunks, "found": found_form(plan)}


def space_messages(job: Job, cluster: Cluster, space: Space) -> Iterator[Json]:
    """The same piece by piece, for a page that draws while the search runs; what is found comes from the plan."""
    yield {"head": head_form(job, cluster)}
    for some in points(job, cluster, space):
        yield {"chunk": chunk_form(some)}


def head_form(job: Job, cluster: Cluster) -> Json:
    """What is known before anything is searched."""
    return {
        "model": job.model.name,
        "devices": job.devices,
        "device": cluster.device.name,
        "capacity_B": cluster.device.memory_B,
        "fields": [{"name": name, "absent": absent} for name, (_, absent) in FIELDS.items()],
        "why": WHY,
        "digits": DIGITS,
        "units": UNITS,
    }


def found_form(plan: Plan) -> Json:
    """What a search has found: the layout chosen, the front, and what was rejected before it was timed."""
    return {
        "best": {"layout": str(plan.best.layout), **_point(plan.best.step_time_s, float(plan.best.memory.total_B))},
        "front": [_scored(one) for one in plan.findings.front],
        "evaluated": plan.findings.evaluated,
        "feasible": plan.findings.feasible,
        "rejected": plan.rejected,
    }


def _scored(one: Scored) -> Json:
    return {"layout": str(one.layout), **_point(one.step_time_s, one.memory_B)}


def _point(step_time_s: float, memory_B: float) -> Json:
    """Time and memory as those of the points."""
    return {
        "step_time_s": float(as_shown(np.array([step_time_s]), TIME_STEPS)[0]),
        "memory_B": float(as_shown(np.array([memory_B]), SIZE_STEPS)[0]),
    }


def chunk_form(some: Points) -> Json:
    """The points of one grid."""
    texts, columns = [], []
    for name, (keys, _) in FIELDS.items():
        values = np.stack([some.field(key) for key in keys], axis=1) if keys else np.zeros((len(some), 1))
        _, first, index = np.unique(values, axis=0, return_index=True, return_inverse=True)
        texts.append([layout.texts()[name] for layout in some.grid.layouts(some.places[first])])
        columns.append(packed(index.reshape(-1)))
    return {
        "points": len(some),
        "step_time_s": packed(as_shown(some.step_time_s, TIME_STEPS)),
        "memory_B": packed(as_shown(some.memory_B, SIZE_STEPS)),
        "why": packed(some.why),
        "texts": texts,
        "columns": columns,
    }
