"""Ranks go on from one generation, whatever each of them sees of the newest."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lockstep.base.errors import RunFailed
from lockstep.run.checkpoint.manifest import MANIFEST, data_file, folder_of
from lockstep.run.launch import launch
from lockstep.run.train import Saving, Task, train

from . import seen
from .test_checkpoints import save

RANKS = 2


def two_views(root: Path, harm: Callable[[Path], object], harmed: int) -> list[Path]:
    """Generations 10 and 20 as every rank sees them; one rank's newest is harmed."""
    save(root / "0", 10)
    save(root / "0", 20)
    shutil.copytree(root / "0", root / "1")
    harm(folder_of(root / str(harmed), 20))
    return [root / str(rank) for rank in range(RANKS)]


def flip(folder: Path) -> None:
    """One bit of one rank's arrays."""
    path = data_file(folder, 1)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


HARMS: dict[str, tuple[Callable[[Path], object], str]] = {
    "flipped bit": (flip, "step-00000020: rank-1.npz is damaged"),
    "not committed yet": (lambda folder: (folder / MANIFEST).unlink(), "step-00000020: its manifest is missing"),
    "not there": (shutil.rmtree, "step-00000020: its manifest is missing"),
    "another step": (
        lambda folder: shutil.copy(folder_of(folder.parent, 10) / MANIFEST, folder / MANIFEST),
        "step-00000020: its manifest is of step-00000010",
    ),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_checkpoint_unreadable_on_one_rank_is_used_by_none(tmp_path: Path, harm: str) -> None:
    change, why = HARMS[harm]
    found = launch(seen.chooses, RANKS, (two_views(tmp_path, change, harmed=1),), timeout_s=20)
    assert found[0] == found[1]
    step, weight, passed_over = found[0]
    assert (step, weight) == (10, 10)
    assert len(passed_over) == 1
    assert passed_over[0].startswith(why)
    assert passed_over[0].endswith(", as rank 1 sees it")


def test_a_checkpoint_missing_on_rank_0_is_used_by_none(tmp_path: Path) -> None:
    """A generation whose manifest appears after rank 0 has looked is none."""
    roots = two_views(tmp_path, lambda folder: (folder / MANIFEST).unlink(), harmed=0)
    assert launch(seen.chooses, RANKS, (roots,), timeout_s=20) == [(10, 10, ())] * RANKS


def test_differing_checkpoints_of_one_step_are_skipped(tmp_path: Path) -> None:
    roots = two_views(tmp_path, shutil.rmtree, harmed=1)
    save(roots[1], 20, attempt="another")
    found = launch(seen.chooses, RANKS, (roots,), timeout_s=20)
    assert found == [(10, 10, ("step-00000020 is not the same on all ranks",))] * RANKS


def test_every_rank_reports_a_missing_common_checkpoint(tmp_path: Path) -> None:
    save(tmp_path / "0", 10)
    with pytest.raises(RunFailed, match="no checkpoint can be used: step-00000010: its manifest is missing"):
        launch(seen.chooses, RANKS, ([tmp_path / "0", tmp_path / "1"],), timeout_s=20)
    assert launch(seen.chooses, RANKS, ([tmp_path / "1"] * RANKS,), timeout_s=20) == [None] * RANKS


def test_a_run_resumes_from_the_newest_common_checkpoint(tmp_path: Path) -> None:
    task = Task(steps=6, batch=16, optimizer="momentum")
    undisturbed = train("zero-1", task, RANKS)
    train("zero-1", Task(steps=4, batch=16, optimizer="momentum"), RANKS, saving=Saving(tmp_path / "0", 2))
    shutil.copytree(tmp_path / "0", tmp_path / "1")
    flip(folder_of(tmp_path / "1", 4))
    savings = [Saving(tmp_path / str(rank), 100, resume=True, at_end=False) for rank in range(RANKS)]
    outcomes = launch(seen.resumes, RANKS, ("zero-1", task, savings), timeout_s=20)
    for outcome in outcomes:
        assert outcome.first_step == 2
        assert outcome.weights.tobytes() == undisturbed.weights.tobytes()
