"""Checkpoint files: whole or absent, checked on reading, older generations behind damaged ones, other rank counts."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.errors import BadInput, RunFailed
from lockstep.measure.checkpoint import OWN, REPLICATED, SHARDED, CheckpointWriter, Part, generations, latest
from lockstep.measure.checkpoint.files import MANIFEST, data_file, folder_of, note_file

WORDS = {"method": "zero-1"}


def parts_of(rank: int, ranks: int, step: int, total: int = 10) -> list[Part]:
    """Weights on every rank, a shard of the moments, a residual of the rank's own."""
    each = -(-total // ranks)
    moments = np.arange(rank * each, (rank + 1) * each, dtype=np.float64) + step
    return [
        Part("weights", np.full(total, step, dtype=np.float32)),
        Part("moments", moments, SHARDED, rank * each, total),
        Part("residual", np.full(3, rank + step), OWN),
    ]


def save(root: Path, step: int, ranks: int = 2, attempt: str = "a", keep: int = 2) -> None:
    """What all ranks together write; rank 0 last, as it waits for the others."""
    for rank in reversed(range(ranks)):
        CheckpointWriter(root, rank, ranks, attempt, keep=keep).save(step, parts_of(rank, ranks, step), WORDS)


@settings(max_examples=15, derandomize=True, deadline=None)
@given(ranks=st.integers(1, 5), total=st.integers(1, 23), step=st.integers(0, 10**6))
def test_what_is_read_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, ranks: int, total: int, step: int
) -> None:
    root = tmp_path_factory.mktemp("checkpoint")
    for rank in reversed(range(ranks)):
        CheckpointWriter(root, rank, ranks, "a").save(step, parts_of(rank, ranks, step, total), WORDS)
    found = latest(root)
    assert found is not None
    assert (found.step, found.ranks, found.words, found.passed_over) == (step, ranks, WORDS, ())
    np.testing.assert_array_equal(found.array("weights"), np.full(total, step, np.float32))
    np.testing.assert_array_equal(found.array("moments", ranks=7), np.arange(total, dtype=np.float64) + step)
    for rank in range(ranks):
        np.testing.assert_array_equal(found.array("residual", rank), np.full(3, rank + step))


def test_replicated_parts_are_kept_once(tmp_path: Path) -> None:
    save(tmp_path, 1)
    with np.load(data_file(folder_of(tmp_path, 1), 1)) as arrays:
        assert sorted(arrays) == ["moments", "residual"]


def test_what_belongs_to_a_rank_is_refused_to_another_number_of_ranks(tmp_path: Path) -> None:
    save(tmp_path, 1)
    found = latest(tmp_path)
    assert found is not None
    with pytest.raises(BadInput, match="belongs to each of 2 ranks; 3 ranks cannot resume it"):
        found.array("residual", 0, ranks=3)
    with pytest.raises(BadInput, match="holds no 'momentum', but moments, residual, weights"):
        found.array("momentum")


def _truncate(folder: Path) -> None:
    path = data_file(folder, 1)
    path.write_bytes(path.read_bytes()[:-7])


def _flip(folder: Path) -> None:
    path = data_file(folder, 0)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "torn file": (_truncate, "rank-1.npz is damaged"),
    "flipped bit": (_flip, "rank-0.npz is damaged"),
    "missing file": (lambda folder: data_file(folder, 1).unlink(), "rank-1.npz is missing"),
    "torn manifest": (lambda folder: (folder / MANIFEST).write_text('{"step"'), "its manifest is damaged"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_falls_back_with_a_message(tmp_path: Path, damage: str) -> None:
    save(tmp_path, 10)
    save(tmp_path, 20)
    harm, why = DAMAGES[damage]
    harm(folder_of(tmp_path, 20))
    found = latest(tmp_path)
    assert found is not None
    assert found.step == 10
    assert len(found.passed_over) == 1
    assert found.passed_over[0].startswith("step-00000020")
    assert why in found.passed_over[0]


def test_when_all_are_damaged_it_says_so(tmp_path: Path) -> None:
    save(tmp_path, 10)
    _flip(folder_of(tmp_path, 10))
    with pytest.raises(BadInput, match=r"no checkpoint can be used: step-00000010: rank-0.npz is damaged"):
        latest(tmp_path)


def test_without_a_manifest_it_is_no_checkpoint(tmp_path: Path) -> None:
    assert latest(tmp_path / "nowhere") is None
    save(tmp_path, 10)
    CheckpointWriter(tmp_path, 1, 2, "a").save(20, parts_of(1, 2, 20), WORDS)
    found = latest(tmp_path)
    assert found is not None
    assert found.step == 10


def test_a_rank_that_does_not_write_is_named_and_nothing_committed(tmp_path: Path) -> None:
    """Also when a note of an earlier run lies there, whose file may be anything."""
    CheckpointWriter(tmp_path, 1, 2, "the run that died").save(10, parts_of(1, 2, 10), WORDS)
    assert note_file(folder_of(tmp_path, 10), 1).exists()
    with pytest.raises(RunFailed, match=r"rank 1 did not write its part of step-00000010 within 0\.05 s"):
        CheckpointWriter(tmp_path, 0, 2, "now", timeout_s=0.05).save(10, parts_of(0, 2, 10), WORDS)
    assert latest(tmp_path) is None


def test_only_the_newest_generations_stay(tmp_path: Path) -> None:
    for step in range(1, 6):
        save(tmp_path, step, keep=3)
    assert [step for step, _ in generations(tmp_path)] == [3, 4, 5]


def test_a_writer_beside_the_training_keeps_the_state_of_the_save(tmp_path: Path) -> None:
    """What the training does to its arrays after the save does not reach the file."""
    writer = CheckpointWriter(tmp_path, 0, 1, "a", beside=True)
    weights = np.zeros(100_000)
    for step in range(1, 4):
        writer.save(step, [Part("weights", weights)], WORDS)
        weights += 1
    writer.close()
    found = latest(tmp_path)
    assert found is not None
    np.testing.assert_array_equal(found.array("weights"), np.full(100_000, 2.0))
    assert [one.step for one in writer.written] == [1, 2, 3]
    assert all(one.size_B > 800_000 for one in writer.written)


def test_a_failed_write_beside_the_training_is_raised_at_the_next_wait(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path, 0, 2, "a", beside=True, timeout_s=0.02)
    writer.save(1, parts_of(0, 2, 1), WORDS)
    with pytest.raises(RunFailed, match="rank 1 did not write"):
        writer.wait()
    writer.close()


def save_without_room(root: Path) -> NoReturn:
    """Body of a process that may not write files of more than 100 bytes; its exit code is the error's number."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    code = 0
    try:
        save(root, 20, ranks=1)
    except OSError as error:
        code = error.errno or -1
    os._exit(code)


def test_without_room_it_is_an_error_and_the_last_checkpoint_stays(tmp_path: Path) -> None:
    save(tmp_path, 10, ranks=1)
    child = os.fork()
    if child == 0:
        save_without_room(tmp_path)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == errno.EFBIG
    found = latest(tmp_path)
    assert found is not None
    assert found.step == 10


def test_replicated_is_the_default_kind() -> None:
    assert Part("weights", np.zeros(1)).kind == REPLICATED


def test_a_whole_folder_copied_elsewhere_is_still_a_checkpoint(tmp_path: Path) -> None:
    save(tmp_path / "here", 10)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    found = latest(tmp_path / "there")
    assert found is not None
    assert found.step == 10
