"""torch.distributed.pipelining is asked which pipelines its classes of schedules refuse, what order the others run, and
for how many micro-batches a stage keeps activations, which is read off that order.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from agreement import Asker
from pipelines_of_torch import NAMES, VEE, Passes, built, group_of, order_of, plain

from effort import share
from lockstep.base.errors import BadInput
from lockstep.simulate.parallel import pipeline as pipelines
from lockstep.simulate.parallel.pipeline.schedules import dualpipe_v

pytest.importorskip("torch.distributed")

STAGES, MOST_CHUNKS, ROUNDS = (1, 2, 3, 4, 5, 8), 4, 3
UNEQUAL = "Megatron Core runs 1F1B with fewer micro-batches than stages; an export to torch is refused, as torch does"
ONE_CHUNK = "with one chunk Lockstep asks for 1f1b; torch interleaves one chunk too, and then holds up to twice as much"
NO_GROUPS = "zb-h1 of the paper needs no equal groups of micro-batches; Lockstep exports it to no software"
NO_CHUNKS = "Lockstep has no zero-bubble schedule that interleaves chunks, and refuses them"
Case = tuple[str, int, int, int]


def cases() -> Iterator[Case]:
    """(Lockstep's name, stages, micro-batches, chunks)."""
    for name in NAMES:
        for stages in STAGES:
            for chunks in (1,) if name in ("1f1b", "gpipe") else range(1, MOST_CHUNKS + 1):
                for microbatches in range(1, (ROUNDS + 1) * stages + 3):
                    yield name, stages, microbatches, chunks


def asked_of_torch(case: Case) -> Any:
    """torch's schedule, or None where its constructor refuses."""
    name, stages, microbatches, chunks = case
    with group_of(stages):
        try:
            return built(NAMES[name], stages, microbatches, chunks)
        except ValueError:
            return None


def why_other(case: Case) -> str:
    """Why Lockstep takes a pipeline that torch does not, or the other way round."""
    name, stages, microbatches, chunks = case
    if name == "zb-h1":
        taken = microbatches % max(1, microbatches // stages) == 0
        return (NO_CHUNKS if taken else "") if chunks > 1 else ("" if taken else NO_GROUPS)
    if name == "interleaved" and chunks == 1:
        return ONE_CHUNK if microbatches % max(1, microbatches // stages) == 0 else ""
    return UNEQUAL if name == "1f1b" and microbatches < stages else ""


def held(order: Passes, chunks: int) -> float:
    """Most micro-batches whose activations a device holds in an order, from F to B, or to W where B is parted."""
    most = now = 0
    for step, _, _ in order:
        now += {"F": 1, "I": 0}.get(step, -1)
        most = max(most, now)
    return most / chunks


def both(one_in: int) -> list[tuple[Case, Any]]:
    """Pipelines that both take, with torch's schedule."""
    taken = [one for one in cases() if pipelines.get(one[0]).valid(*one[1:])]
    made = [(case, asked_of_torch(case)) for case in share(taken, one_in)]
    return [(case, theirs) for case, theirs in made if theirs is not None]


def test_every_class_of_torch_is_asked() -> None:
    from torch.distributed.pipelining import schedules

    bases = ("PipelineScheduleSingle", "PipelineScheduleMulti")
    public = {name for name, _ in inspect.getmembers(schedules, inspect.isclass) if name.startswith("Schedule")}
    assert public == {schedules.get_schedule_class(name).__name__ for name in NAMES.values()}
    assert not public.intersection(bases)


def test_torch_refuses_what_lockstep_refuses(asked: Asker) -> None:
    with asked("torch", "pipelines that constructors of schedules refuse") as answers:
        for case in share(list(cases()), 5):
            ours = bool(pipelines.get(case[0]).valid(*case[1:]))
            answers.compare(f"{case}", ours, asked_of_torch(case) is not None, why=why_other(case))


def test_interleaved_zero_bubble_is_refused_with_words(asked: Asker) -> None:
    with asked("torch", "pipelines that constructors of schedules refuse") as answers:
        for stages in STAGES:
            for chunks in range(2, MOST_CHUNKS + 1):
                with pytest.raises(BadInput) as error:
                    pipelines.pipeline("zb-h1", stages, 2 * stages, chunks=chunks)
                answers.refused(f"{stages} x {chunks}", error.value, "chunk", NO_CHUNKS)


def test_orders_are_those_of_torch(asked: Asker) -> None:
    with asked("torch", "orders of passes of schedules") as answers:
        for case, theirs in both(3):
            name, stages, microbatches, chunks = case
            ours = pipelines.get(name).order(stages, microbatches, chunks)
            answers.compare(f"{case}", ours, order_of(theirs, stages, name in VEE))


def test_stages_hold_activations_of_as_many_micro_batches(asked: Asker) -> None:
    """What the memory of a stage is reckoned with, against a replay of torch's order."""
    with asked("torch", "most micro-batches that a stage keeps activations of") as answers:
        for case, theirs in both(3):
            name, stages, microbatches, chunks = case
            orders = order_of(theirs, stages, name in VEE)
            code = pipelines.code(name)
            ours = [
                float(pipelines.peak_live_by_code(code, stages, microbatches, chunks=chunks, stage=s))
                for s in range(stages)
            ]
            answers.compare(f"{case}", ours, [held(lane, chunks) for lane in orders])


def test_ranks_hold_the_stages_of_torch(asked: Asker) -> None:
    """Which rank holds each stage, along the way of a micro-batch."""
    with asked("torch", "ranks that hold the stages of schedules") as answers:
        for case, theirs in both(5):
            name, stages, _, chunks = case
            if chunks > 1:
                (ours,) = pipelines.routes(pipelines.get(name).placement, stages, chunks)
                ranks = [theirs.stage_index_to_group_rank[stage] for stage in range(stages * chunks)]
                answers.compare(f"{case}", [device for device, _ in ours], ranks)


def test_cells_of_dualpipe_v_are_those_of_torch(asked: Asker) -> None:
    with asked("torch", "pairs of passes that DualPipeV runs as one") as answers:
        for stages in STAGES:
            for microbatches in range(2 * stages, 2 * stages + 10):
                with group_of(stages):
                    theirs = built("DualPipeV", stages, microbatches, 2).pipeline_order
                for s, cells in enumerate(dualpipe_v.cells(stages, microbatches)):
                    actions = [one for one in theirs[s] if one is not None]
                    before = [plain(actions[:k], stages, True) for k, one in enumerate(actions) if one.sub_actions]
                    answers.compare(f"{stages} x {microbatches}, {s}", cells, {len(passes) for passes in before})
