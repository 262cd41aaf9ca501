"""What memory holds over a step, for `held.js`: categories one above the other, and what each of them is made of.

    form of a rank   stack    [{"name", "used_B"}] from the bottom up; bytes from each of `times_s` on
                     lives    what is there for a while: title, from when until when, bytes; by category
                     tensors  {category: [[name, share]]}, the largest first
                     reserved_B

What is no tensor (the framework's share and the slack of blocks) is the lowest category, `apart`; all others are what
PyTorch counts as allocated. The most that its allocator reserves, beside the framework, is `reserved_B`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.types.plain import Json
from lockstep.price.layout import FRAMEWORK_B, kept_by_name, stage_memory, states_by_name
from lockstep.show.views.page.columns import packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.base.types.arrays import Array
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.describe.captured import Captured
    from lockstep.simulate.program import Timeline

APART, ACTIVATIONS, BUFFERS = "apart", "activations", "buffers"
PASS = re.compile(r"[A-Z](\d+)(?:\.(\d+))?(?: layer \d+)?")
"""What a pass is called: its kind, its micro-batch, its chunk, its layer."""


def held_forms(one: Estimate, timeline: Timeline) -> list[Json]:
    """For every stage of an estimate's timeline."""
    return [_stage(one, timeline, stage) for stage in range(one.layout.pp)]


def _stage(one: Estimate, timeline: Timeline, stage: int) -> Json:
    grid = one.layout.grid()
    memory = stage_memory(one.job, one.cluster, grid, stage)
    apart_B = float(memory.total_B - memory.allocated_B)
    times_s, used_B = timeline.memory_B(stage)
    sizes_B = {name: float(ranks[stage]) for name, ranks in timeline.held_B.items()}
    times_s, used_B = np.concatenate(([0.0], times_s)), np.concatenate(([sum(sizes_B.values())], used_B))
    always_B = {APART: apart_B, **sizes_B, BUFFERS: sizes_B[BUFFERS] - apart_B}
    rows = {name: np.full(len(times_s), size_B) for name, size_B in always_B.items() if size_B > 0}
    layers = sum(one.job.device_layers(grid.stages, grid.placement, grid.split)[stage].values())
    each = 0 if one.layout.stages else layers // max(1, one.layout.vpp)
    kept = kept_by_name(one.job, grid, stage)
    return {
        **stacked(times_s, {**rows, ACTIVATIONS: used_B - sum(sizes_B.values())}),
        "lives": _lives([(*row, ACTIVATIONS) for row in passes(timeline, stage, each)]),
        "tensors": {
            **{name: list(shares.items()) for name, shares in states_by_name(one.job, grid, stage).items()},
            ACTIVATIONS: [[name, size_B / sum(kept.values())] for name, size_B in kept.items()],
        },
        "reserved_B": float(memory.reserved_B) + FRAMEWORK_B,
    }


def stacked(times_s: Array, rows: dict[str, Array]) -> Json:
    """Categories that hold anything, over the moments at which that changes, and their sum."""
    found = [{"name": name, "used_B": packed(used_B)} for name, used_B in rows.items() if np.any(used_B)]
    return {"times_s": packed(times_s), "used_B": packed(np.sum(list(rows.values()), axis=0)), "stack": found}


def passes(timeline: Timeline, stage: int, layers: int = 0) -> list[tuple[str, float, float, float]]:
    """What is kept of micro-batches: called how, from when until when, and bytes; `layers` of a chunk, 0 if unknown."""
    program, line, of = timeline.program, timeline, f", {layers} layer{'s' if layers > 1 else ''}" if layers else ""
    mine = np.flatnonzero((program.rank == stage) & ((program.memory_start_B > 0) | (program.memory_end_B < 0)))
    begun: dict[str, tuple[float, float]] = {}
    rows: list[tuple[str, float, float, float]] = []
    for i in sorted(mine.tolist(), key=lambda i: (line.start_s[i], line.end_s[i])):
        found = PASS.fullmatch(program.name(int(program.label[i])))
        name = "" if found is None else f"micro-batch {found[1]}" + (f", chunk {found[2]}" if found[2] else "")
        if program.memory_start_B[i] > 0:
            begun[name] = float(line.start_s[i]), float(program.memory_start_B[i])
        elif name in begun:
            born_s, size_B = begun.pop(name)
            rows.append((name + of, born_s, float(line.end_s[i]), size_B))
    return rows + [(name + of, born_s, line.makespan_s, size_B) for name, (born_s, size_B) in begun.items()]


def _lives(rows: Sequence[tuple[str, float, float, float, str]]) -> Json:
    """Titles, moments, bytes and categories as columns."""
    names = ("title", "born_s", "died_s", "size_B", "category")
    found: Json = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) if rows else {}
    numbers = {name: packed(np.array(found.get(name, ()), dtype=float)) for name in names[1:4]}
    return {"title": found.get("title", []), "category": found.get("category", []), **numbers}


def captured_form(found: Captured, begins_s: Array, makespan_s: float) -> Json:
    """The same of a captured step, whose tensors are called after the call that made them."""
    from lockstep.describe.captured import CATEGORIES

    held = dict(zip(CATEGORIES, found.live_B[:, : len(begins_s)], strict=True))
    starts_s, last, rows = np.append(begins_s, makespan_s).tolist(), len(begins_s), []
    for one in found.lives:
        died = last if one.died is None else one.died + 1
        made = found.operations[min(one.born, len(found.operations) - 1)]
        name = ", ".join(filter(None, (made.name.removeprefix("aten."), made.module, made.phase)))
        moments = starts_s[min(one.born, last)], starts_s[min(died, last)]
        rows.append((name, *moments, float(one.held_B), one.category))
    return {**stacked(begins_s, held), "lives": _lives(rows), "tensors": {}}
