"""P10: a run that stopped and went on from its checkpoint ends with the bits of one that never stopped."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import distributed

from lockstep.base.errors import BadInput
from lockstep.base.settings import read_settings
from lockstep.run.checkpoint.manifest import data_file, folder_of
from lockstep.run.launch import Rank, launch
from lockstep.run.train import Saving, Task, all_methods, find_method, train
from lockstep.run.train.result import Outcome
from lockstep.run.train.run import work
from lockstep.run.train.saving import Saver, words_of
from lockstep.run.train.worker import Worker

METHODS = {one.name: one for one in all_methods()}
RESUMABLE = [one.name for one in all_methods() if one.resumable]
RESHARDED = ("synchronous", "accumulation", "torch-ddp", "zero-1", "zero-2", "zero-3")
"""Methods whose state other numbers of ranks can use."""
STEPS, STOP_AFTER, EVERY = 6, 5, 2
TASK = Task(steps=STEPS, batch=16, optimizer="adam", learning_rate=0.01)


def task_of(name: str) -> Task:
    """The first model that the method trains."""
    return replace(TASK, model=METHODS[name].models[0])


def three_ways(rank: Rank, names: list[str], root: Path) -> list[tuple[Outcome, Outcome, Outcome]]:
    """Every method without a stop; stopped after a step that was not saved, then resumed; resumed after its end."""
    return [
        (
            work(rank, name, task_of(name), {}),
            _stopped_and_resumed(rank, name, root / name),
            _resumed_after_its_end(rank, name, root / name),
        )
        for name in names
    ]


def _resumed_after_its_end(rank: Rank, name: str, folder: Path) -> Outcome:
    """As after a kill between the last checkpoint and the exit."""
    distributed.barrier()
    return work(rank, name, task_of(name), {}, Saving(folder, EVERY, resume=True))


def _stopped_and_resumed(rank: Rank, name: str, folder: Path) -> Outcome:
    method, task = find_method(name), task_of(name)
    worker = Worker(task, rank, helpers=method.helpers, splits_batch=method.splits_batch)
    saver = Saver(Saving(folder, EVERY), worker, words_of(name, task, {}), rank.timeout_s)
    losses = method.run(worker, read_settings(method.settings, {}))
    for number, _ in enumerate(islice(losses, STOP_AFTER), 1):
        saver.after_step(number)
    saver.close()
    losses.close()  # type: ignore[attr-defined]
    worker.wire.close()
    # In a real run the ranks that saved are gone before others look for what they saved.
    distributed.barrier()
    return work(rank, name, task, {}, Saving(folder, EVERY, beside=True, resume=True))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Outcome, Outcome, Outcome]]]:
    by_rank = launch(three_ways, 2, (RESUMABLE, tmp_path_factory.mktemp("saves")), timeout_s=60)
    return {name: [pairs[place] for pairs in by_rank] for place, name in enumerate(RESUMABLE)}


@pytest.mark.parametrize("name", RESUMABLE)
def test_a_resumed_run_is_bit_identical_to_an_uninterrupted_one(name: str, outcomes: dict[str, Any]) -> None:
    for whole, resumed, _ in outcomes[name]:
        assert resumed.first_step == STOP_AFTER - STOP_AFTER % EVERY
        assert resumed.weights.tobytes() == whole.weights.tobytes()
        assert [step.loss for step in resumed.steps] == [step.loss for step in whole.steps[resumed.first_step :]]
        assert resumed.test_loss == whole.test_loss
        assert resumed.notes == whole.notes


@pytest.mark.parametrize("name", RESUMABLE)
def test_resuming_a_finished_run_keeps_its_bits_and_answer(name: str, outcomes: dict[str, Any]) -> None:
    for whole, _, again in outcomes[name]:
        assert (again.first_step, again.steps, again.saves) == (STEPS, (), {"saves": 0})
        assert again.weights.tobytes() == whole.weights.tobytes()
        assert (again.test_loss, again.accuracy_frac) == (whole.test_loss, whole.accuracy_frac)


def test_methods_with_state_in_messages_refuse_to_resume(tmp_path: Path) -> None:
    assert set(METHODS) - set(RESUMABLE) == {"parameter-server", "hogwild"}
    with pytest.raises(BadInput, match="hogwild has no state between two steps"):
        train("hogwild", replace(TASK, optimizer="sgd"), 2, saving=Saving(tmp_path, 2))


def on_other_ranks(rank: Rank, names: list[str], root: Path) -> list[Outcome]:
    """Every method, resumed here."""
    longer = replace(TASK, steps=STEPS + 2)
    return [work(rank, name, longer, {}, Saving(root / name, 100, resume=True, at_end=False)) for name in names]


def saved_here(rank: Rank, names: list[str], root: Path) -> list[Outcome]:
    """Every method, saved at its end."""
    return [work(rank, name, TASK, {}, Saving(root / name, STEPS)) for name in names]


def test_sharded_state_resumes_on_other_numbers_of_ranks(tmp_path: Path) -> None:
    """4 ranks and 1 go on from what 2 ranks saved, and do what one process would; sums in another order, so close."""
    names = list(RESHARDED)
    launch(saved_here, 2, (names, tmp_path), timeout_s=60)
    alone = train("synchronous", replace(TASK, steps=STEPS + 2), 1)
    for ranks in (4, 1):
        for name, outcome in zip(names, launch(on_other_ranks, ranks, (names, tmp_path), timeout_s=60)[0], strict=True):
            assert outcome.first_step == STEPS
            np.testing.assert_allclose(outcome.weights, alone.weights, rtol=0, atol=2e-4, err_msg=name)


def test_per_rank_state_is_refused_on_other_numbers_of_ranks(tmp_path: Path) -> None:
    train("top-k", TASK, 2, saving=Saving(tmp_path, STEPS))
    with pytest.raises(Exception, match="belongs to each of 2 ranks; 4 ranks cannot resume it"):
        train("top-k", replace(TASK, steps=8), 4, saving=Saving(tmp_path, 100, resume=True))


def test_a_damaged_newest_checkpoint_falls_back_with_a_note(tmp_path: Path) -> None:
    whole = train("zero-1", TASK, 2)
    train("zero-1", replace(TASK, steps=4), 2, saving=Saving(tmp_path, 2))
    path = data_file(folder_of(tmp_path, 4), 1)
    path.write_bytes(path.read_bytes()[:-5])
    resumed = train("zero-1", TASK, 2, saving=Saving(tmp_path, 2, resume=True))
    assert resumed.first_step == 2
    assert "step-00000004: rank-1.npz is damaged" in resumed.passed_over[0]
    assert resumed.weights.tobytes() == whole.weights.tobytes()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"batch": 32}, r"belongs to another run: \{'batch': 16\}, requested \{'batch': 32\}"),
        ({"steps": 2}, "holds a checkpoint after 4 steps already, got 2"),
    ],
)
def test_a_different_run_cannot_resume_or_overwrite_the_checkpoint(
    tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    train("synchronous", replace(TASK, steps=4), 1, saving=Saving(tmp_path, 4))
    with pytest.raises(BadInput, match=why):
        train("synchronous", replace(TASK, **change), 1, saving=Saving(tmp_path, 4, resume=True))
    with pytest.raises(BadInput, match="resume it, or use another folder"):
        train("synchronous", TASK, 1, saving=Saving(tmp_path, 4))
