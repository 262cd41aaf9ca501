"""torch builds, with its own classes of schedules, the pipelines that are exported to torchtitan, by the words of the
file, and none of those that are refused.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from agreement import Asker
from pipelines_of_torch import built, group_of

from effort import share
from lockstep.decide.planner.export.torchtitan import ONE_CHUNK, SCHEDULES
from placed_pipelines import exported, placed

torch = pytest.importorskip("torch")
MOST_MICROBATCHES = 18
Case = tuple[str, int, int, int]


def cases() -> Iterator[Case]:
    """(schedule, ranks, micro-batches, chunks); torchtitan gives a class with several stages two or more of a rank."""
    for schedule in SCHEDULES:
        for ranks in (2, 3, 4, 5, 8):
            for chunks in (1,) if schedule in ONE_CHUNK else (2, 3):
                for microbatches in range(1, MOST_MICROBATCHES):
                    yield schedule, ranks, microbatches, chunks


def taken_by_torch(name: str, ranks: int, microbatches: int, chunks: int, module: Any = None) -> bool:
    """Whether the constructor of a schedule takes these numbers, and modules like this one."""
    with group_of(ranks):
        try:
            built(name, ranks, microbatches, chunks, module)
        except (ValueError, RuntimeError):
            return False
    return True


def read(text: str, layers: int) -> Case:
    """torch's name, ranks, micro-batches and chunks, as the file's words have them."""
    said = tomllib.loads(text)
    axes = said["parallelism"]
    ranks = axes["pipeline_parallel_degree"]
    microbatches = said["training"]["local_batch_size"] // axes["pipeline_parallel_microbatch_size"]
    chunks = layers // (axes["pipeline_parallel_layers_per_stage"] * ranks)
    return axes["pipeline_parallel_schedule"], ranks, microbatches, chunks


def test_torch_builds_what_is_exported_and_nothing_that_is_refused(asked: Asker) -> None:
    with asked("torch", "pipelines that are exported, or refused, for torchtitan") as answers:
        for schedule, *numbers in share(list(cases()), 6):
            found = placed(schedule, *numbers)
            text = exported(found, "torchtitan")
            case = (SCHEDULES[schedule], *numbers) if text is None else read(text, found.job.layers)
            answers.compare(f"{schedule} {numbers}", text is not None, taken_by_torch(*case))


@pytest.mark.parametrize("compiled", [False, True])
def test_exports_split_backward_passes_of_the_modules_that_torch_does(compiled: bool, asked: Asker) -> None:
    module = torch.nn.Linear(1, 1)
    module = torch.nn.Sequential(torch.compile(module, backend="eager") if compiled else module)
    with asked("torch", "pipelines of compiled modules that are exported, or refused, for torchtitan") as answers:
        for schedule in SCHEDULES:
            for ranks in (2, 3, 4, 6, 8):
                chunks = 1 if schedule in ONE_CHUNK else 2
                text = exported(placed(schedule, ranks, 2 * ranks, chunks, compiled=compiled), "torchtitan")
                taken = taken_by_torch(SCHEDULES[schedule], ranks, 2 * ranks, chunks, module)
                answers.compare(f"{schedule} x {ranks}, compiled {compiled}", text is not None, taken)
                assert text is None or tomllib.loads(text)["compile"] == {"enable": compiled}
