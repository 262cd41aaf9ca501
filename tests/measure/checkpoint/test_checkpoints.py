"""Checkpoint files: whole or absent, checked on reading, older generations behind damaged ones, other rank counts."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.base.errors import BadInput, RunFailed
from lockstep.base.store.files import write_whole
from lockstep.run.checkpoint import OWN, REPLICATED, SHARDED, CheckpointWriter, Part, generations, latest
from lockstep.run.checkpoint.manifest import (
    MANIFEST,
    Manifest,
    Unsealed,
    data_file,
    digest,
    folder_of,
    folders,
    note_file,
    read_sealed,
    unsealed,
    write_sealed,
)
from lockstep.run.checkpoint.reader import Unusable, _parts

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
def test_written_state_is_read_back(
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


def test_replicated_parts_are_stored_once(tmp_path: Path) -> None:
    save(tmp_path, 1)
    with np.load(data_file(folder_of(tmp_path, 1), 1)) as arrays:
        assert sorted(arrays) == ["moments", "residual"]


def test_per_rank_state_is_refused_for_another_number_of_ranks(tmp_path: Path) -> None:
    save(tmp_path, 1)
    found = latest(tmp_path)
    assert found is not None
    with pytest.raises(BadInput, match="belongs to each of 2 ranks; 3 ranks cannot resume it"):
        found.array("residual", 0, ranks=3)
    with pytest.raises(BadInput, match="holds no 'momentum', but moments, residual, weights"):
        found.array("momentum")


def test_no_flipped_bit_and_no_cut_of_a_manifest_is_accepted(tmp_path: Path) -> None:
    """Every bit, and every length from nothing to one byte less."""
    save(tmp_path, 60)
    content = (folder_of(tmp_path, 60) / MANIFEST).read_bytes()
    assert unsealed(content)["step"] == 60
    for damaged in (*flips(content), *cuts(content)):
        with pytest.raises(Unsealed):
            unsealed(damaged)


@pytest.mark.parametrize("rank", [0, 1])
def test_no_flipped_bit_and_no_cut_of_a_header_is_accepted(tmp_path: Path, rank: int) -> None:
    """Names, lengths and types of the arrays stand at both ends of a rank's file."""
    save(tmp_path, 60)
    folder = folder_of(tmp_path, 60)
    path, note = data_file(folder, rank), Manifest.read(folder).notes[rank]
    content = path.read_bytes()
    ends = [*range(200), *range(len(content) - 100, len(content))]
    with path.open("r+b", buffering=0) as file:
        for place in ends:
            for bit in range(8):
                os.pwrite(file.fileno(), bytes([content[place] ^ 1 << bit]), place)
                with pytest.raises(Unusable, match=f"rank-{rank}.npz is damaged"):
                    _parts(path, note)
            os.pwrite(file.fileno(), content[place : place + 1], place)
        assert {part.name for part in _parts(path, note)} == set(note.parts)
        for length in reversed(ends):
            os.ftruncate(file.fileno(), length)
            with pytest.raises(Unusable, match=f"rank-{rank}.npz is damaged"):
                _parts(path, note)


def test_a_record_damaged_before_the_commit_is_not_committed(tmp_path: Path) -> None:
    """Rank 0 takes names and places of the parts from what the ranks say; a wrong place would get a right checksum."""
    CheckpointWriter(tmp_path, 1, 2, "a").save(60, parts_of(1, 2, 60), WORDS)
    path = note_file(folder_of(tmp_path, 60), 1)
    path.write_bytes(path.read_bytes().replace(b'"start":5', b'"start":4'))
    with pytest.raises(RunFailed, match="rank 1 did not write"):
        CheckpointWriter(tmp_path, 0, 2, "a", timeout_s=0.02).save(60, parts_of(0, 2, 60), WORDS)


def flips(content: bytes) -> Iterator[bytes]:
    """The content with one bit changed, for every bit."""
    for place in range(len(content)):
        for bit in range(8):
            yield content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def cuts(content: bytes) -> Iterator[bytes]:
    """The first bytes of the content, for every length below the whole."""
    for length in range(len(content)):
        yield content[:length]


def rewritten(folder: Path, **changes: Any) -> None:
    """The manifest with other fields and a right checksum, as a program that is not this one might write it."""
    path = folder / MANIFEST
    write_sealed(path, {**read_sealed(path), **changes})


def without(mapping: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key != name}


def _earlier(folder: Path) -> None:
    """As the version before checksums wrote it."""
    old = {"step": 20, "ranks": 2, "words": WORDS, "files": []}
    (folder / MANIFEST).write_text(json.dumps(old))


def _files(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_sealed(folder / MANIFEST)["files"]
    return found


SPARE = {"kind": "spare", "start": 0, "total": 0}
MANIFESTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty object": (lambda folder: (folder / MANIFEST).write_text("{}\n"), "has no checksum"),
    "of before": (_earlier, "of an earlier Lockstep: it has no checksum"),
    "list": (lambda folder: (folder / MANIFEST).write_text("[]\n"), "holds no object"),
    "nested": (lambda folder: (folder / MANIFEST).write_text("[" * 100_000), "is not JSON"),
    "not text": (lambda folder: (folder / MANIFEST).write_bytes(b"\xff\xfe\x00"), "is not JSON"),
    "spaced": (
        lambda folder: (folder / MANIFEST).write_text(json.dumps(json.loads((folder / MANIFEST).read_text()))),
        "not as it was written",
    ),
    "a folder": (lambda folder: ((folder / MANIFEST).unlink(), (folder / MANIFEST).mkdir()), "is a folder"),
    "a pipe": (lambda folder: ((folder / MANIFEST).unlink(), os.mkfifo(folder / MANIFEST)), "is a named pipe"),
    "newer": (
        lambda folder: write_whole(
            folder / MANIFEST, {"schema": 9, "checksum": digest({"schema": 9})}
        ),
        "of a newer Lockstep (schema 9)",
    ),
    "another step": (lambda folder: rewritten(folder, step=30), "is of step-00000030"),
    "step as text": (lambda folder: rewritten(folder, step="20"), "has a field step that cannot be"),
    "step below 0": (lambda folder: rewritten(folder, step=-20), "has a field step that cannot be"),
    "step as truth": (lambda folder: rewritten(folder, step=True), "has a field step that cannot be"),
    "another field": (lambda folder: rewritten(folder, giles=[]), "does not have the fields"),
    "no files": (lambda folder: rewritten(folder, files=[]), "names no files"),
    "files as text": (lambda folder: rewritten(folder, files=["rank-0"]), "does not have the fields"),
    "unknown kind": (
        lambda folder: rewritten(folder, files=[{**one, "parts": {"weights": SPARE}} for one in _files(folder)]),
        "unknown kind 'spare'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("harm", MANIFESTS)
def test_an_impossible_manifest_is_skipped(tmp_path: Path, harm: str) -> None:
    save(tmp_path, 10)
    save(tmp_path, 20)
    change, why = MANIFESTS[harm]
    change(folder_of(tmp_path, 20))
    found = latest(tmp_path)
    assert found is not None
    assert found.step == 10
    (message,) = found.passed_over
    assert message.startswith("step-00000020: its manifest ")
    assert why in message


def test_inconsistent_checkpoint_parts_are_skipped(tmp_path: Path) -> None:
    """Under a right checksum: a name that the file does not hold, and shards of two totals."""
    for name, start, total, why in (("momenta", 0, 10, "cannot be read"), ("moments", 0, 11, "in different ways")):
        save(tmp_path, 10)
        folder = folder_of(tmp_path, 10)
        first, second = _files(folder)
        parts = {**without(second["parts"], "moments"), name: {"kind": SHARDED, "start": start, "total": total}}
        rewritten(folder, files=[first, {**second, "parts": parts}])
        with pytest.raises(BadInput, match=why):
            latest(tmp_path)


@pytest.mark.parametrize("name", ["step-00000070", "step-70", "step-abc", "step-", "step-²", "step-00000020-copy"])
def test_a_renamed_checkpoint_folder_is_skipped(tmp_path: Path, name: str) -> None:
    """Also where newer ones are saved afterwards, which do not go in its place."""
    save(tmp_path, 10)
    save(tmp_path, 20)
    folder_of(tmp_path, 20).rename(tmp_path / name)
    for newest in (10, 30):
        found = latest(tmp_path)
        assert found is not None
        assert found.step == newest
        assert found.passed_over == (f"{name}: its manifest is of step-00000020",)
        save(tmp_path, 30, keep=1)
    assert [path.name for path in folders(tmp_path)] == ["step-00000030", name]


def test_a_foreign_folder_among_checkpoints_is_skipped_and_kept(tmp_path: Path) -> None:
    stranger = tmp_path / "step-abc"
    stranger.mkdir()
    (stranger / MANIFEST).write_text('{"name": "an extension of a browser"}')
    with pytest.raises(BadInput, match="no checkpoint can be used: step-abc: its manifest"):
        latest(tmp_path)
    for step in (1, 2, 3):
        save(tmp_path, step, keep=1)
    found = latest(tmp_path)
    assert found is not None
    assert found.step == 3
    assert (stranger / MANIFEST).exists()


def test_foreign_files_in_an_old_checkpoint_are_kept(tmp_path: Path) -> None:
    """Its own files go; through a link nothing goes."""
    elsewhere = tmp_path / "elsewhere"
    save(elsewhere, 20)
    save(tmp_path / "saves", 10)
    (folder_of(tmp_path / "saves", 10) / "notes.txt").write_text("mine")
    folder_of(tmp_path / "saves", 20).symlink_to(folder_of(elsewhere, 20))
    save(tmp_path / "saves", 30, keep=1)
    assert [path.name for path in folder_of(tmp_path / "saves", 10).iterdir()] == ["notes.txt"]
    found = latest(elsewhere)
    assert found is not None
    assert found.step == 20


def _truncate(folder: Path) -> None:
    path = data_file(folder, 1)
    path.write_bytes(path.read_bytes()[:-7])


def _flip(folder: Path) -> None:
    path = data_file(folder, 0)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "torn file": (_truncate, "rank-1.npz is damaged"),
    "flipped bit": (_flip, "rank-0.npz is damaged"),
    "missing file": (lambda folder: data_file(folder, 1).unlink(), "rank-1.npz is missing"),
    "torn manifest": (lambda folder: (folder / MANIFEST).write_text('{"step"'), "its manifest is damaged"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_checkpoint_falls_back_with_a_message(tmp_path: Path, damage: str) -> None:
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


def test_an_error_is_raised_when_all_checkpoints_are_damaged(tmp_path: Path) -> None:
    save(tmp_path, 10)
    _flip(folder_of(tmp_path, 10))
    with pytest.raises(BadInput, match=r"no checkpoint can be used: step-00000010: rank-0.npz is damaged"):
        latest(tmp_path)


def test_a_folder_without_a_manifest_is_not_a_checkpoint(tmp_path: Path) -> None:
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


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    for step in range(1, 6):
        save(tmp_path, step, keep=3)
    assert [step for step, _ in generations(tmp_path)] == [3, 4, 5]


def test_a_background_writer_saves_the_state_at_the_save(tmp_path: Path) -> None:
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


def test_a_failed_background_write_is_raised_at_the_next_wait(tmp_path: Path) -> None:
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


def test_a_full_disk_is_an_error_and_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 10, ranks=1)
    child = os.fork()
    if child == 0:
        save_without_room(tmp_path)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == errno.EFBIG
    assert list(tmp_path.rglob("*.tmp")) == [], "what was written of it takes no room either"
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
