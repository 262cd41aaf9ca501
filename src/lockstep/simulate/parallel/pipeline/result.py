"""`pipeline(...)`: one schedule answered in full, priced by its closed form and replayed from its program."""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Number
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.progress import Progress
from lockstep.simulate.parallel.pipeline.construct import check, program
from lockstep.simulate.parallel.pipeline.registry import get
from lockstep.simulate.parallel.pipeline.replay import replay_s
from lockstep.simulate.parallel.pipeline.times import Times
from lockstep.simulate.play import unseen
from lockstep.simulate.program import Kind, Program


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One step of a pipeline. `makespan_s` is replayed from the program, `formula_s` is the closed form."""

    schedule: str
    stages: int
    microbatches: int
    chunks: int
    makespan_s: float
    formula_s: float
    stage_s: float
    bubble_frac: float
    utilization_frac: float
    stage_bubble_frac: float
    peak_live_microbatches: tuple[float, ...]
    cells: tuple[float, ...]
    """Per device, micro-batches whose forward pass shares a cell with another one's backward pass; () if none can."""
    sent_B: tuple[float, ...]
    formula: str
    exact: str
    source: str
    program: Program

    def to_dict(self) -> Json:
        """Plain JSON form, without the program."""
        return picked(self, without="program")


def pipeline(
    schedule: str,
    stages: int,
    microbatches: int,
    *,
    chunks: int | None = None,
    forward_s: Number = 1.0,
    backward_s: Number = 2.0,
    message_B: float = 0.0,
    recompute_frac: float = 0.0,
    progress: Progress = unseen,
    **times: Number,
) -> Pipeline:
    """One step of `schedule`: makespan, bubble, peak live micro-batches per stage, bytes sent per stage.

    forward_s, backward_s, and `times` are the fields of `Times`: seconds per micro-batch on a whole device, one value
    or one per stage. `recompute_frac` of the forward pass runs again in the backward pass. `progress` hears of
    the devices whose passes are made. Raises BadInput.
    """
    chosen = get(schedule)
    _refuse_numbers(stages, microbatches, forward_s=forward_s, backward_s=backward_s, message_B=message_B, **times)
    v = check(chosen, stages, microbatches, chunks)
    seconds: Json = {"forward_s": forward_s, "backward_s": backward_s} | times
    for name in ("forward_s", "backward_s", "weight_s"):
        if name in seconds and np.ndim(seconds[name]):
            seconds[name] = np.asarray(seconds[name], dtype=float)
    given = Times(**seconds)
    if given.weight_s is not None and not np.less_equal(given.weight_s, given.backward_s).all():
        raise BadInput(
            f"weight_s is part of backward_s={given.backward_s}, so it cannot be {given.weight_s}", "weight_s"
        )
    _refuse_traffic(given)
    if recompute_frac:
        given = given.recomputing(recompute_frac)
    # What a micro-batch holds is not asked for.
    built = program(
        chosen, stages, microbatches, chunks=v, times=given, message_B=message_B, activation_B=0.0, progress=progress
    )
    makespan_s, stage_s = replay_s(built)
    work_s = float(np.sum(built.duration_s[built.kind == Kind.COMPUTE])) / stages
    uneven = np.ndim(given.forward_s) or np.ndim(given.backward_s)
    # A closed form knows one middle stage: with a time per stage the slowest one bounds it from above.
    bounding = _slowest(given) if uneven else given
    return Pipeline(
        schedule=chosen.name,
        stages=stages,
        microbatches=microbatches,
        chunks=v,
        makespan_s=makespan_s,
        formula_s=float(chosen.cost(stages, microbatches, v, bounding).makespan_s),
        stage_s=stage_s,
        bubble_frac=1.0 - work_s / makespan_s if makespan_s else 0.0,
        utilization_frac=work_s / makespan_s if makespan_s else 1.0,
        stage_bubble_frac=1.0 - work_s / stage_s if stage_s else 0.0,
        peak_live_microbatches=tuple(float(chosen.peak_live(stages, microbatches, v, s)) for s in range(stages)),
        cells=tuple(float(chosen.num_cells(stages, microbatches, v, s)) for s in range(stages)) if chosen.cells else (),
        sent_B=tuple(float(x) for x in built.pair_B().sum(axis=1)),
        formula=chosen.formula,
        exact="no: one value per stage, the slowest one bounds it" if uneven else chosen.exact,
        source=chosen.source,
        program=built,
    )


def _slowest(times: Times) -> Times:
    """One stage for all: the slowest in each kind of pass."""
    weight_s = None if times.weight_s is None else float(np.max(times.weight_s))
    return replace(
        times, forward_s=float(np.max(times.forward_s)), backward_s=float(np.max(times.backward_s)), weight_s=weight_s
    )  # fmt: skip


def _refuse_traffic(times: Times) -> None:
    """BadInput for traffic that is longer than its pass."""
    rest = times.backward_s - times.weight_part_s
    for name, comm_s, whole_s in (
        ("forward", times.forward_comm_s, times.forward_s),
        ("backward", times.backward_comm_s, rest),
    ):
        if not np.less_equal(comm_s, whole_s).all():
            raise BadInput(
                f"{name}_comm_s={comm_s} is part of a {name} pass that takes {whole_s} s without weight gradients",
                f"{name}_comm_s",
            )


def _refuse_numbers(stages: int, microbatches: int, **values: Number | None) -> None:
    """BadInput for counts below one and for times that are negative or not finite."""
    for name, number in (("stages", stages), ("microbatches", microbatches)):
        if number < 1:
            raise BadInput(f"{name} must be at least 1, got {number}")
    for name, value in values.items():
        if value is None or isinstance(value, bool):
            continue
        if not (np.isfinite(value).all() and np.greater_equal(value, 0).all()):
            raise BadInput(f"{name} must be finite and not negative, got {value}")
        if np.ndim(value) and np.shape(value) != (stages,):
            raise BadInput(f"{name} has {np.size(value)} values for {stages} stages; give one, or one per stage")
