"""Pipelines that are exported to torchtitan, built by torch's own classes of schedules over a fake process group."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from advice_samples import DENSE

import lockstep
from lockstep.base.errors import Infeasible
from lockstep.decide.planner.export import TARGETS
from lockstep.decide.planner.export.refusals import Placed
from lockstep.decide.planner.export.torchtitan import ONE_CHUNK, SCHEDULES, SPLIT_BACKWARD
from lockstep.price.layout import Job, Layout, broken_by

torch = pytest.importorskip("torch")
MOST_MICROBATCHES = 15


@contextmanager
def group_of(ranks: int) -> Iterator[None]:
    """A process group whose other ranks do not exist."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def built(name: str, ranks: int, microbatches: int, chunks: int, module: Any = None) -> Any:
    """The schedule that torchtitan builds (distributed/pipeline_parallel.py); raises what torch raises."""
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class

    module = torch.nn.Linear(1, 1) if module is None else module
    kind, device = get_schedule_class(name), torch.device("cpu")
    stages = [PipelineStage(module, chunk * ranks, ranks * chunks, device) for chunk in range(chunks)]
    one = issubclass(kind, PipelineScheduleSingle)
    return kind(stages[0] if one else stages, n_microbatches=microbatches, scale_grads=False)


def placed(schedule: str, ranks: int, microbatches: int, chunks: int, compiled: bool = False) -> Placed:
    """A pipeline alone, with two layers in every chunk."""
    recipe = DENSE.recipe.having(batch=microbatches, fused_elementwise=compiled)
    job = Job(replace(DENSE.model, layers=2 * ranks * chunks), recipe, ranks)
    return Placed(job, Layout(pp=ranks, vpp=chunks, schedule=schedule, micro_batch=1, zero=2))


def exported(found: Placed) -> dict[str, Any] | None:
    """The file; None where the layout breaks a rule or is refused."""
    if broken_by(found.layout, found.job):
        return None
    try:
        return tomllib.loads(TARGETS["torchtitan"](found))
    except Infeasible:
        return None


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("ranks", [2, 3, 4, 5])
def test_exported_schedules_are_those_that_torch_builds(schedule: str, ranks: int) -> None:
    """By the words of the file: the schedule, the stages from its layers, the micro-batches from its batches."""
    several = (2,) if schedule in SPLIT_BACKWARD else (2, 3)
    offered = []
    with group_of(ranks):
        for chunks in (1,) if schedule in ONE_CHUNK else several:
            for microbatches in range(1, MOST_MICROBATCHES):
                found = placed(schedule, ranks, microbatches, chunks)
                said = exported(found)
                if said is None:
                    with pytest.raises(ValueError, match="icrobatches"):
                        built(SCHEDULES[schedule], ranks, microbatches, chunks)
                    continue
                axes, layers = said["parallelism"], found.job.layers
                of_step = said["training"]["local_batch_size"] // axes["pipeline_parallel_microbatch_size"]
                stages = layers // (axes["pipeline_parallel_layers_per_stage"] * axes["pipeline_parallel_degree"])
                built(axes["pipeline_parallel_schedule"], axes["pipeline_parallel_degree"], of_step, stages)
                offered.append((microbatches, chunks))
    assert len(offered) >= 5


def test_interleaved_exports_accept_the_micro_batches_of_torch() -> None:
    """torch splits them into m // p equal groups, and fewer than p into one."""
    taken = [m for m in range(1, MOST_MICROBATCHES) if exported(placed("interleaved", 4, m, 2)) is not None]
    assert taken == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_exports_do_not_split_backward_passes_of_compiled_modules(schedule: str) -> None:
    chunks = 1 if schedule in ONE_CHUNK else 2
    said = exported(placed(schedule, 2, 8, chunks, compiled=True))
    assert (said is None) == (schedule in SPLIT_BACKWARD)
    with group_of(2):
        module = torch.nn.Sequential(torch.compile(torch.nn.Linear(1, 1), backend="eager"))
        if said is None:
            with pytest.raises(RuntimeError, match=r"torch\.compile"):
                built(SCHEDULES[schedule], 2, 8, chunks, module)
        else:
            assert said["compile"] == {"enable": True}
            built(SCHEDULES[schedule], 2, 8, chunks, module)


@pytest.mark.parametrize(
    ("target", "schedule", "chunks", "microbatches", "why"),
    [
        ("torchtitan", "1f1b", 1, 3, "torch needs at least as many"),
        ("torchtitan-cli", "1f1b", 1, 3, "torch needs at least as many"),
        ("torchtitan", "breadth-first", 1, 8, "one chunk per device"),
        ("megatron", "interleaved", 2, 3, "interleaving with 3 micro-batches on 4 stages"),
        ("bridge", "interleaved", 2, 3, "interleaving with 3 micro-batches on 4 stages"),
    ],
)
def test_pipelines_that_the_software_rejects_are_refused(
    target: str, schedule: str, chunks: int, microbatches: int, why: str
) -> None:
    found = placed(schedule, 4, microbatches, chunks)
    with pytest.raises(Infeasible, match=why):
        TARGETS[target](Placed(found.job, replace(found.layout, zero=0 if target in ("megatron", "bridge") else 2)))


@pytest.mark.parametrize(("microbatches", "group"), [(4, None), (8, None), (5, 5), (6, 6), (7, 7), (10, 5), (15, 5)])
def test_megatron_exports_set_a_group_size_for_uneven_micro_batches(microbatches: int, group: int | None) -> None:
    """What forward_backward_pipelining_with_interleaving of Megatron Core 0.19 asks of a group: p to m, no rest."""
    found = placed("interleaved", 4, microbatches, 2)
    text = TARGETS["megatron"](Placed(found.job, replace(found.layout, zero=0)))
    flag = "--microbatch-group-size-per-virtual-pipeline-stage"
    assert [line.split()[1] for line in text.splitlines() if line.startswith(flag)] == [str(group)] * (
        group is not None
    )
    size = group or 4
    assert 4 <= size <= microbatches
    assert microbatches % size == 0


def test_a_search_interleaves_only_what_megatron_core_runs_too() -> None:
    """A layout with fewer micro-batches than stages is priced where it is named."""
    asked = {"batch": 12, "seq": 512, "schedule": "interleaved", "zero": 1}
    found = lockstep.plan("llama3-8b", "dgx-h100:1", pp=4, **asked).plans
    of_step = {(one.accumulation_steps, one.layout.pp) for one in found}
    assert (6, 4) in of_step
    assert all(steps >= stages for steps, stages in of_step)
    few = lockstep.estimate("llama3-8b", "dgx-h100:1", pp=4, vpp=2, dp=2, micro_batch=2, **asked)
    assert few.accumulation_steps == 3
