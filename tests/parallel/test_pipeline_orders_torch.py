"""Orders of operations against torch.distributed.pipelining's own schedule classes, an implementation by other people.

The classes are asked for their order without processes, groups or stages: only the numbers they read are set.
"""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.simulate.parallel import pipeline as pipelines
from lockstep.simulate.parallel.pipeline.schedules import dualpipe_v

pytest.importorskip("torch.distributed")

STAGES = (1, 2, 3, 4, 5, 8)


def blank(name: str, stages: int, microbatches: int, chunks: int) -> Any:
    """A torch schedule object with the numbers its order depends on, and nothing else."""
    from torch.distributed.pipelining import schedules

    torch_schedule = object.__new__(getattr(schedules, name))
    torch_schedule._n_microbatches = microbatches
    torch_schedule.pp_group_size = stages
    torch_schedule._num_stages = torch_schedule.num_stages = stages * chunks
    torch_schedule.n_local_stages = chunks
    torch_schedule._stages = [None] * chunks
    torch_schedule.number_of_rounds = max(1, microbatches // stages)
    torch_schedule.microbatches_per_round = microbatches // torch_schedule.number_of_rounds
    return torch_schedule


def plain(actions: Any, stages: int, vee: bool) -> list[tuple[str, int, int]]:
    """Computing actions as (pass, micro-batch, chunk); overlapped pairs one after the other."""
    flat = [part for action in actions if action is not None for part in (action.sub_actions or (action,))]
    chunk = (lambda stage: int(stage >= stages)) if vee else (lambda stage: stage // stages)
    kept = [part for part in flat if part.computation_type.value in "FIWB"]
    return [(part.computation_type.value, part.microbatch_index, chunk(part.stage_index)) for part in kept]


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("extra", [0, 1, 3, 8])
def test_gpipe_order_matches_torch(stages: int, extra: int) -> None:
    torch_order = blank("ScheduleGPipe", stages, stages + extra, 1)._get_pipeline_order()
    ours = pipelines.get("gpipe").order(stages, stages + extra, 1)
    assert [plain(torch_order[s], stages, False) for s in range(stages)] == ours


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("extra", [0, 1, 3, 8])
def test_1f1b_order_matches_torch(stages: int, extra: int) -> None:
    torch_order = blank("Schedule1F1B", stages, stages + extra, 1)._get_pipeline_order()
    for s, lane in enumerate(pipelines.get("1f1b").order(stages, stages + extra, 1)):
        theirs = plain(torch_order[s], stages, False)
        # torch 2.13 numbers the forward passes of the last stage from 1 in this listing; their order is what counts.
        start = min(i for step, i, _ in theirs if step == "F")
        assert start == (1 if s == stages - 1 else 0)
        assert [(step, i - start * (step == "F"), c) for step, i, c in theirs] == lane


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("chunks", [2, 3, 4])
def test_interleaved_order_matches_torch(stages: int, chunks: int) -> None:
    """Every number of micro-batches that torch splits into equal groups, multiples of the stages among them."""
    taken = []
    for microbatches in range(1, 5 * stages + 1):
        if not pipelines.get("interleaved").valid(stages, microbatches, chunks):
            continue
        taken.append(microbatches)
        theirs = blank("ScheduleInterleaved1F1B", stages, microbatches, chunks)
        for s, lane in enumerate(pipelines.get("interleaved").order(stages, microbatches, chunks)):
            assert plain(theirs._calculate_single_rank_operations(s), stages, False) == lane
    assert taken == [m for m in range(1, 5 * stages + 1) if m % max(1, m // stages) == 0]


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("microbatches", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_breadth_first_order_matches_torch(stages: int, microbatches: int, chunks: int) -> None:
    theirs = blank("ScheduleLoopedBFS", stages, microbatches, chunks)
    for s, lane in enumerate(pipelines.get("breadth-first").order(stages, microbatches, chunks)):
        assert plain(theirs._calculate_single_rank_operations(s), stages, False) == lane


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("microbatches", [1, 2, 5, 15, 16, 24])
def test_zero_bubble_v_order_matches_torch(stages: int, microbatches: int) -> None:
    theirs = blank("ScheduleZBVZeroBubble", stages, microbatches, 2)
    for s, lane in enumerate(pipelines.get("zb-v").order(stages, microbatches, 2)):
        assert plain(theirs._calculate_single_rank_operations(s), stages, True) == lane


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("extra", [0, 1, 4, 9])
def test_dualpipe_v_order_matches_torch(stages: int, extra: int) -> None:
    theirs = blank("ScheduleDualPipeV", stages, 2 * stages + extra, 2)
    cells = dualpipe_v.cells(stages, 2 * stages + extra)
    for s, lane in enumerate(pipelines.get("dualpipe-v").order(stages, 2 * stages + extra, 2)):
        actions = [one for one in theirs._calculate_single_rank_operations(s) if one is not None]
        assert plain(actions, stages, True) == lane
        before = [plain(actions[:k], stages, True) for k, one in enumerate(actions) if one.sub_actions]
        assert {len(passes) for passes in before} == cells[s]
