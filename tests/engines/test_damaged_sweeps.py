"""Files of answers that were damaged or made by strangers: no other answer is shown, what is missing is computed again.

Old files, up to format 1, are databases of SQLite; they are listed with what they do not have.
"""

from __future__ import annotations

import logging
import os
import random
import re
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

import lockstep
from cli_runner import run
from effort import ALL
from engines.engine_tasks import counted
from lockstep.base.engines import Asking, Questions, Serial, SweepFile
from lockstep.base.engines.known import Known
from lockstep.base.engines.packing import ARRAY, packed
from lockstep.base.errors import BadInput
from lockstep.base.types.plain import Json

ANSWERS = 20
DRAWN = 100
"""Of the bits, and of the lengths of a file that is cut, unless all are tried."""


class Kept:
    """A sweep of the real command line, its file and its answer; and copies of the file that are damaged."""

    def __init__(self, folder: Path) -> None:
        self.file, self.bad = folder / "good.sweep", folder / "bad.sweep"
        words = [str(number) for number in range(2, 2 + ANSWERS)]
        lockstep.messages(workers=words, params="1k", program="ring", store=self.file)
        self.raw = self.file.read_bytes()
        self.truth: Json = lockstep.sweeps("show", str(self.file)).to_dict()

    def damaged(self, raw: bytes) -> tuple[int | None, bool]:
        """(rows that are shown of such a file, None where it is refused; whether resuming it gives every answer)."""
        self.bad.write_bytes(raw)
        try:
            shown = lockstep.sweeps("show", str(self.bad)).to_dict()
        except BadInput:
            with pytest.raises(BadInput, match=re.escape(str(self.bad))):
                lockstep.sweeps("resume", str(self.bad))
            return None, False
        for row in shown["rows"]:
            assert row in self.truth["rows"]
        assert lockstep.sweeps("resume", str(self.bad)).to_dict() == self.truth
        assert lockstep.sweeps("show", str(self.bad)).to_dict() == self.truth
        with SweepFile(self.bad, writes=False) as again:
            assert again.damaged == 0, "damage is cleared when what was there is computed again"
        return len(shown["rows"]), True


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    logging.disable(logging.CRITICAL)
    try:
        made = Kept(tmp_path_factory.mktemp("sweeps"))
        assert len(made.truth["rows"]) == ANSWERS
        return made
    finally:
        logging.disable(logging.NOTSET)


def drawn(places: int) -> list[int]:
    """Some of the places, the same in every run; all of them with `LOCKSTEP_ALL_CASES=1`."""
    return list(range(places)) if ALL else sorted(random.Random(places).sample(range(places), DRAWN))


def test_any_flipped_bit_loses_at_most_two_answers_and_changes_none(kept: Kept) -> None:
    ends = [8 * place + bit for place, byte in enumerate(kept.raw) if byte == ord("\n") for bit in range(8)]
    for bit in sorted({*drawn(8 * len(kept.raw)), *ends}):
        raw = bytearray(kept.raw)
        raw[bit // 8] ^= 1 << bit % 8
        shown, completed = kept.damaged(bytes(raw))
        assert completed
        assert shown is not None
        assert shown >= ANSWERS - 2, f"bit {bit}"


def test_a_truncated_file_resumes_if_its_question_is_intact(kept: Kept) -> None:
    asked = kept.raw.index(b"\n", kept.raw.index(b" sweep ")) + 1
    for size_B in drawn(len(kept.raw)):
        shown, completed = kept.damaged(kept.raw[:size_B])
        assert completed == (size_B >= asked), size_B
        whole = kept.raw[:size_B].count(b" answer ") - (size_B > 0 and kept.raw[:size_B][-1:] != b"\n")
        assert shown is None or shown in (whole, whole + 1)


def test_a_lost_question_can_be_repeated_with_its_answers(kept: Kept, tmp_path: Path) -> None:
    """A file without a sound line about the sweep still has its answers, for who asks the same again."""
    path = tmp_path / "a.sweep"
    path.write_bytes(b"\n".join(line for line in kept.raw.split(b"\n") if b" sweep {" not in line))
    assert "does not say what was asked" in run("sweeps", "resume", str(path)).refusal()
    with SweepFile(path, writes=False) as file:
        assert len(file) == ANSWERS
    words = [str(number) for number in range(2, 2 + ANSWERS)]
    lockstep.messages(workers=words, params="1k", program="ring", store=path)
    assert lockstep.sweeps("show", str(path)).to_dict() == kept.truth


def test_damage_is_reported_and_only_missing_answers_are_computed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (calls := tmp_path / "calls").mkdir()
    path = tmp_path / "a.sweep"
    questions = Questions(counted, [(str(calls), one) for one in range(5)], {}, content=lambda one: one[1])
    with SweepFile(path) as file:
        truth = dict(Asking(questions, Serial(), file))
    lines = path.read_bytes().split(b"\n")
    places = [place for place, line in enumerate(lines) if b" answer " in line]
    lines[places[3]] = lines[places[3]][:-2] + b"AA"
    path.write_bytes(b"\n".join(lines))
    with SweepFile(path, writes=False) as file:
        shown = dict(Asking(questions, Known(), file))
        assert (file.damaged, len(shown)) == (1, 4)
    assert "is damaged in 1 places" in caplog.text
    with SweepFile(path) as file:
        assert dict(Asking(questions, Serial(), file)) == truth
    assert sorted(one.name.split("-")[0] for one in calls.iterdir()) == ["0", "1", "2", "3", "3", "4"]


def test_sweeps_list_names_the_damaged_file(kept: Kept, tmp_path: Path) -> None:
    raw = bytearray(kept.raw)
    raw[-10] ^= 1
    (tmp_path / "a.sweep").write_bytes(bytes(raw))
    (tmp_path / "b.sweep").write_bytes(kept.raw)
    listed = run("sweeps", "list", str(tmp_path), "--json").json()["sweeps"]
    assert [(one["damaged"], one["answers"], one["has_digests"]) for one in listed] == [
        (1, ANSWERS - 1, True), (0, ANSWERS, True),
    ]  # fmt: skip
    assert "a.sweep is damaged in 1 places" in " ".join(run("sweeps", "list", str(tmp_path)).out.split())


def test_several_writers_of_one_file_keep_every_answer(tmp_path: Path) -> None:
    path = tmp_path / "a.sweep"

    def write(first: int) -> None:
        with SweepFile(path) as file:
            for number in range(first, 200, 4):
                file.add([(bytes([number]) * 16, packed(list(range(number))))])

    threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with SweepFile(path, writes=False) as file:
        assert len(file) == 200
        assert file.damaged == 0
        assert all(file.answer(bytes([one]) * 16) == packed(list(range(one))) for one in range(200))


def test_an_answer_that_arrives_while_another_writer_opens_the_file_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came between reading the file and looking for a torn last line, and was blanked as such a line."""
    path, clear = tmp_path / "a.sweep", SweepFile._clear_damage
    with SweepFile(path) as first:

        def late(self: SweepFile) -> None:
            first.add([(b"late" * 4, packed([1, 2, 3]))])
            clear(self)

        monkeypatch.setattr(SweepFile, "_clear_damage", late)
        with SweepFile(path) as second:
            assert second.answer(b"late" * 4) == packed([1, 2, 3])
            assert second.damaged == 0


def test_a_full_disk_is_reported_and_keeps_existing_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write, room = tmp_path / "a.sweep", os.write, [0]
    answers = [(bytes([one]) * 16, packed({"of": one})) for one in range(3)]

    def full(handle: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        return write(handle, data[: room[0]])

    with SweepFile(path) as file:
        file.begin({"verb": "messages"})
        file.add(answers[:2])
        before = path.read_bytes()
        file.add(answers[2:])
        size_B = path.stat().st_size - len(before)
    monkeypatch.setattr(os, "write", full)
    for room[0] in range(size_B):
        path.write_bytes(before)
        with SweepFile(path) as file:
            with pytest.raises(BadInput, match=r"answers cannot be kept in .* No space left"):
                file.add(answers[2:])
            assert len(file) == 2
        assert path.read_bytes() == before


# --- files of strangers --------------------------------------------------------------------------------------


def stranger(path: Path, verb: object, words: object, **more: object) -> Path:
    """A file that says so of its sweep, and is otherwise sound."""
    with SweepFile(path) as file:
        about = {"verb": verb, "words": words, "began_s": 1.0, "asked": 1, "versions": here(path.parent)}
        file.begin({**about, **more})
    return path


def here(folder: Path) -> Json:
    """The versions that this Lockstep writes."""
    lockstep.messages(workers=[2, 4], params="1k", store=folder / "own.sweep")
    with SweepFile(folder / "own.sweep", writes=False) as file:
        versions: Json = file.about["versions"]
    return versions


PLANNED = {"model": "gpt2", "cluster": "dgx-a100-40gb", "batch": [64, 128]}
STRANGE: dict[str, tuple[object, object, str]] = {
    "a plan that is written": ("plan", {**PLANNED, "out": "{victim}"}, "sets 'out'"),
    "a report": ("report", {"model": "gpt2", "cluster": "dgx-a100-40gb", "out": "{victim}"}, "is not a sweep"),
    "a trace": ("trace", {"what": "pipeline", "out": "{victim}"}, "is not a sweep"),
    "a measurement": ("bench", {"op": "all-reduce", "csv": "{victim}"}, "is not a sweep"),
    "processes": ("train", {"method": "synchronous", "steps": [1, 2]}, "is not a sweep"),
    "removal": ("sweeps", {"action": "delete", "names": ["{victim}"]}, "is not a sweep"),
    "another file of answers": ("messages", {"workers": [2, 4], "params": 8, "store": "{victim}"}, "sets 'store'"),
    "another engine": ("messages", {"workers": [2, 4], "params": 8, "engine": "dask:tcp://a:1"}, "sets 'engine'"),
    "one that hears": ("messages", {"workers": [2, 4], "params": 8, "progress": "x"}, "sets 'progress'"),
    "an unknown word": ("messages", {"workers": [2, 4], "parms": 8}, "sets 'parms'"),
    "a word in Python": ("converge", {"experiment": "noise-scale", "self": 1}, "sets 'self'"),
    "no verb": ("system", {"command": "true"}, "is not a sweep"),
    "a list": (["plan"], {}, "is not a sweep"),
    "no words": ("plan", ["x"], "is not a sweep"),
    "a missing word": ("messages", {"params": 8}, "--workers"),
    "wrong values": ("messages", {"workers": [[2], {}], "params": {"a": 1}}, "--"),
}


@pytest.mark.parametrize("action", ["show", "resume", "export"])
@pytest.mark.parametrize("what", STRANGE)
def test_an_untrusted_sweep_file_runs_nothing_and_writes_nothing(what: str, action: str, tmp_path: Path) -> None:
    verb, words, said = STRANGE[what]
    victim = tmp_path / "victim.yaml"
    victim.write_text("precious")
    words = _named(words, str(victim))
    path = stranger(tmp_path / "s.sweep", verb, words)
    more = ("-o", str(tmp_path / "o.csv")) if action == "export" else ()
    assert said in run("sweeps", action, str(path), *more).refusal()
    assert victim.read_text() == "precious"
    assert not (tmp_path / "o.csv").exists()


def _named(value: Any, victim: str) -> Any:
    if isinstance(value, dict):
        return {name: _named(one, victim) for name, one in value.items()}
    if isinstance(value, list):
        return [_named(one, victim) for one in value]
    return value.replace("{victim}", victim) if isinstance(value, str) else value


@pytest.mark.parametrize("versions", ["1", ["x"], None, {"lockstep": {}}])
def test_invalid_versions_are_refused(versions: object, tmp_path: Path) -> None:
    path = stranger(tmp_path / "s.sweep", "messages", {"workers": [2, 4], "params": 8}, versions=versions)
    assert run("sweeps", "resume", str(path)).refusal()
    assert run("messages", "--workers", "2,4", "--params", "8", "--store", str(path)).refusal()


HEADER = b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999,), }".ljust(117) + b"\n"
UNREADABLE = [
    b"", b"x", b"j", b"jx", b"j" + b"\x00" * 9, packed([1] * 50)[:-3], ARRAY, ARRAY + b"\x93NUMPY",
    ARRAY + b"\x93NUMPY\x01\x00v\x00" + HEADER,
]  # fmt: skip


@pytest.mark.parametrize("content", UNREADABLE)
def test_an_answer_that_cannot_be_read_is_missing(content: bytes, tmp_path: Path) -> None:
    """Though its digest is right: somebody has written it so."""
    questions = Questions(abs, [-1, -2], {})
    with SweepFile(tmp_path / "a.sweep") as file:
        file.add([(questions.keys()(0), content)])
        assert dict(Asking(questions, Serial(), file)) == {0: 1, 1: 2}


def test_files_of_earlier_versions_are_listed_without_digests(tmp_path: Path) -> None:
    path = tmp_path / "old.sweep"
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE sweep (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
        base.execute("CREATE TABLE answers (key BLOB PRIMARY KEY, answer BLOB NOT NULL) WITHOUT ROWID")
        words = '{"workers": [2, 4], "params": "1k"}'
        about = {
            "verb": '"messages"',
            "words": words,
            "asked": "2",
            "began_s": "1.0",
            "versions": '{"lockstep": "0.9"}',
        }
        base.executemany("INSERT INTO sweep VALUES (?, ?)", {**about, "format": "1"}.items())
        base.execute("INSERT INTO answers VALUES (?, ?)", (b"k" * 16, packed(1)))
    base.close()
    (one,) = run("sweeps", "list", str(tmp_path), "--json").json()["sweeps"]
    assert (one["verb"], one["answers"], one["asked"], one["has_digests"]) == ("messages", 1, 2, False)
    assert "without digests" in " ".join(run("sweeps", "list", str(tmp_path)).out.split())
    before = path.read_bytes()
    assert "lockstep 0.9, not" in run("sweeps", "show", str(path)).refusal()
    assert "without digests" in run("sweeps", "resume", str(path)).refusal()
    assert "without digests" in run("messages", "--workers", "2,4", "--params", "1k", "--store", str(path)).refusal()
    assert path.read_bytes() == before
    assert "deleted" in run("sweeps", "delete", str(path)).out
