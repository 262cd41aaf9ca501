"""The list of schedules, their integer codes, and prices for arrays that mix them.

The code of a schedule is its place in `SCHEDULES`: new ones join at the end, so codes never change. A file joins by
lying in `schedules/`; other packages offer theirs as entry points of the group `lockstep.schedules`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.registry import import_all
from lockstep.base.types.arrays import Array, Number, Truth
from lockstep.simulate.parallel.pipeline.schedule import REGISTRY, PipelineCost, Schedule
from lockstep.simulate.parallel.pipeline.times import Times

import_all("lockstep.simulate.parallel.pipeline.schedules")
REGISTRY.arrange("""
naive gpipe 1f1b interleaved zb-h1 zb-h2 zb-v eager-1f1b chimera dualpipe dualpipe-v breadth-first
v-half v-min zb-1p zb-2p
""")
SCHEDULES: list[Schedule] = list(REGISTRY.own.values())
"""By code. A schedule of another package joins when it is first asked for."""
CODES: dict[str, int] = {schedule.name: code for code, schedule in enumerate(SCHEDULES)}


def names() -> tuple[str, ...]:
    """Names of all schedules: Lockstep's own in the order of their codes, then those of other packages."""
    return REGISTRY.names()


def get(name: str, where: str | None = None) -> Schedule:
    """The schedule called `name`. Raises UnknownName."""
    return SCHEDULES[code(name, where)]


def code(name: str, where: str | None = None) -> int:
    """Integer code of a schedule. Raises UnknownName, and BadInput for one that its package cannot give."""
    if name not in CODES:
        SCHEDULES.append(REGISTRY.get(name, where))
        CODES[name] = len(SCHEDULES) - 1
    return CODES[name]


def codes_where(wanted: Callable[[Schedule], bool]) -> list[int]:
    """Codes of the schedules that are as wanted."""
    return [number for number, schedule in enumerate(SCHEDULES) if wanted(schedule)]


def price_by_code(
    codes: Number, stages: Number, microbatches: Number, *, chunks: Number = 1, blocking: bool = True, **times: Number
) -> PipelineCost:
    """Prices where every entry has its own schedule; all arguments broadcast, `times` are the fields of `Times`.

    `chunks` is read where the schedule lets the user choose, so 1 is fine for the others.
    """
    given = {name: value for name, value in times.items() if value is not None}
    shaped = np.broadcast_arrays(codes, stages, microbatches, chunks, *given.values())
    codes, stages, microbatches, chunks = shaped[:4]
    every = Times(blocking=blocking, **dict(zip(given, shaped[4:], strict=True)))
    makespan_s, stage_s, ideal_s = (np.empty(codes.shape) for _ in range(3))
    for mask, schedule in _present(codes):
        cost = schedule.cost(stages[mask], microbatches[mask], chunks[mask], every.only(mask))
        makespan_s[mask], stage_s[mask], ideal_s[mask] = cost.makespan_s, cost.stage_s, cost.ideal_s
    return PipelineCost(makespan_s, stage_s, ideal_s)


def makespan_by_code_s(codes: Array, stages: int, microbatches: Number, chunks: Array, times: Times) -> Number:
    """Makespans [...] where every entry of `codes` [...] has its own schedule, of one number of stages. Broadcasts.

    Where the schedule has the last axis to itself, as in the planner's grids, each form is called once on the rest.
    """
    present = _occurring(codes)
    if len(present) == 1:
        return SCHEDULES[present[0]].cost(stages, microbatches, chunks, times).makespan_s
    given = {f.name: getattr(times, f.name) for f in fields(times)}
    alone = codes.size == codes.shape[-1] and all(
        np.shape(value)[-1:] in ((), (1,)) for value in (*given.values(), microbatches)
    )
    if not alone:
        return price_by_code(codes, stages, microbatches, chunks=chunks, **given).makespan_s
    line, runs = codes.reshape(-1), []
    for number in dict.fromkeys(line.tolist()):
        here = np.flatnonzero(line == number)
        runs.append((here, SCHEDULES[number].cost(stages, microbatches, chunks[..., here], times).makespan_s))
    shape = np.broadcast_shapes(*(run.shape[:-1] for _, run in runs))
    makespan_s = np.empty((*shape, line.size))
    for here, run in runs:
        makespan_s[..., here] = run
    return makespan_s


def peak_live_by_code(
    codes: Number, stages: Number, microbatches: Number, *, chunks: Number = 1, stage: Number = 0
) -> Array:
    """Most micro-batches held at once by device `stage` where every entry has its own schedule. Broadcasts."""
    return _by_code(lambda one: one.peak_live, float, codes, stages, microbatches, chunks, stage)


def cells_by_code(
    codes: Number, stages: Number, microbatches: Number, *, chunks: Number = 1, stage: Number = 0
) -> Array:
    """Cells that device `stage` runs where every entry has its own schedule, in micro-batches. Broadcasts."""
    if not any(SCHEDULES[number].cells for number in _occurring(codes)):
        return np.zeros(())
    count = _by_code(lambda one: one.num_cells, float, codes, stages, microbatches, chunks, stage)
    return np.where(valid(codes, stages, microbatches, chunks), count, 0.0)


def valid(codes: Number, stages: Number, microbatches: Number, chunks: Number = 1) -> Array:
    """Whether each entry's schedule exists for these numbers (interleaved: Megatron-LM's rules). Broadcasts."""
    return _by_code(lambda one: one.valid, bool, codes, stages, microbatches, chunks)


def _by_code(
    formula: Callable[[Schedule], Callable[..., Number | Truth]], dtype: type, codes: Number, *numbers: Number
) -> Array:
    """The formula of each entry's own schedule, of numbers that broadcast."""
    codes, *shaped = np.broadcast_arrays(codes, *numbers)
    found: Array = np.zeros(codes.shape, dtype)
    for mask, schedule in _present(codes):
        found[mask] = formula(schedule)(*(each[mask] for each in shaped))
    return found


def _present(codes: Array) -> list[tuple[Array, Schedule]]:
    """(mask, schedule) for every code that occurs."""
    return [(np.equal(codes, number), SCHEDULES[number]) for number in _occurring(codes)]


def _occurring(codes: Number) -> list[int]:
    """The codes that occur, in order; counted, as `np.unique` sorts them and loads masked arrays."""
    flat = np.ravel(codes)
    if flat.size and not (flat.min() >= 0 and flat.max() < len(SCHEDULES)):
        raise BadInput(f"schedule codes are 0 to {len(SCHEDULES) - 1}, got {flat.min()} to {flat.max()}")
    return np.flatnonzero(np.bincount(flat)).tolist()
