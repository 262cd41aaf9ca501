"""A run that is damaged, of another version or no run at all hides none of the others, and nobody loses a file."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli_runner import run
from lockstep.base.errors import BadInput, RunFailed
from lockstep.base.store import FINISHED, NotRecorded, RunStore, compare
from lockstep.base.store.record import CONFIG, ENVIRONMENT, EVENTS, RESULT
from lockstep.show.verbs.words.keeping import kept

from .test_event_file import curves

DEEP = "[" * 100_000
LEVELS = 200


def nested(levels: int) -> str:
    return '{"a":' * levels + "0" + "}" * levels


Damage = tuple[str, str | bytes]
UNREADABLE: dict[str, Damage] = {
    "schema as text": (CONFIG, '{"schema":"1","verb":"train","label":"","words":{}}'),
    "schema as truth": (CONFIG, '{"schema":true,"verb":"train","label":"","words":{}}'),
    "schema of a list": (CONFIG, '{"schema":[1],"verb":"train","label":"","words":{}}'),
    "no schema": (CONFIG, '{"verb":"train","label":"","words":{}}'),
    "newer schema": (CONFIG, '{"schema":99,"verb":"train","label":"","words":{}}'),
    "schema without end": (CONFIG, f'{{"schema":{"9" * 400},"verb":"train","label":"","words":{{}}}}'),
    "words as a list": (CONFIG, '{"schema":1,"verb":"train","label":"","words":[]}'),
    "verb missing": (CONFIG, '{"schema":1,"label":"","words":{}}'),
    "config as a list": (CONFIG, "[]"),
    "config torn": (CONFIG, '{"schema":1,"ver'),
    "config deep": (CONFIG, DEEP),
    "words deep": (CONFIG, f'{{"schema":1,"verb":"train","label":"","words":{nested(LEVELS)}}}'),
    "config not text": (CONFIG, b"\xff\xfe\x00"),
}
READABLE: dict[str, Damage] = {
    "environment as a list": (ENVIRONMENT, "[1]"),
    "environment as text": (ENVIRONMENT, '"here"'),
    "environment empty": (ENVIRONMENT, ""),
    "start as text": (ENVIRONMENT, '{"started_s":"now"}'),
    "start null": (ENVIRONMENT, '{"started_s":null}'),
    "start of a list": (ENVIRONMENT, '{"started_s":[]}'),
    "start without end": (ENVIRONMENT, '{"started_s":1e400}'),
    "start before everything": (ENVIRONMENT, '{"started_s":-1e300}'),
    "process as text": (ENVIRONMENT, '{"pid":"1","pid_started":[]}'),
    "process without end": (ENVIRONMENT, f'{{"pid":{"9" * 400}}}'),
    "result empty": (RESULT, "{}"),
    "result as a list": (RESULT, "[]"),
    "result torn": (RESULT, '{"status":"fini'),
    "result deep": (RESULT, DEEP),
    "status unknown": (RESULT, '{"status":"perfect","reason":"","result":{}}'),
    "answer as text": (RESULT, '{"status":"finished","reason":"","result":"well"}'),
    "reason as a number": (RESULT, '{"status":"finished","reason":1,"result":{}}'),
    "half a letter": (RESULT, '{"status":"failed","reason":"\\ud800 [/red]","result":null}'),
    "end without a time": (EVENTS, '{"event":"end"}\n'),
    "end at no time": (EVENTS, '{"event":"end","time_s":"later"}\n{"event":"end","time_s":1e400}\n'),
    "events deep": (EVENTS, f"{DEEP}\n{nested(LEVELS)}\n"),
    "events that are none": (EVENTS, '1\nnull\n"two"\n[3]\n'),
    "events not text": (EVENTS, b"\xff\xfe\x00\n"),
}
DAMAGES = UNREADABLE | READABLE


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of two sound runs that is the default one."""
    monkeypatch.setenv("LOCKSTEP_RUNS", str(tmp_path / "runs"))
    store = RunStore()
    for _ in range(2):
        with store.start("train", {"ranks": 2}) as writer:
            writer.record(step=1, loss=0.5)
            writer.finish({"loss": 0.5})
    return store.root


def spoiled(root: Path, damage: Damage) -> str:
    """The first of the two runs with one file replaced; its name."""
    name, content = damage
    oldest = min(path.name for path in root.iterdir() if path.is_dir())
    (root / oldest / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return oldest


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_run_hides_none_of_the_others(root: Path, kind: str) -> None:
    """Listed, rebuilt, shown, compared and exported: by name where it can be, and the others always."""
    spoiled_id = spoiled(root, DAMAGES[kind])
    listed = run("runs", "--json").json()["runs"]
    assert [row["id"] for row in listed][1] == spoiled_id
    assert listed[0]["status"] == FINISHED
    assert spoiled_id in run("runs").out
    assert run("runs", "reindex", "--json").json()["runs"] == 2
    assert run("runs", "--json").json()["runs"] == listed
    assert run("runs", "show", "last", "--json").json()["id"] == listed[0]["id"]
    exported = ("runs", "export", spoiled_id, "--tensorboard", str(root / "curves"))
    if kind in UNREADABLE:
        assert listed[1]["status"] == "damaged"
        for words in (("runs", "show", spoiled_id), ("runs", "compare", spoiled_id, "last"), exported):
            assert spoiled_id in run(*words).refusal()
    else:
        assert run("runs", "show", spoiled_id).code == 0
        assert run("runs", "show", spoiled_id, "--json").json()["id"] == spoiled_id
        assert run("runs", "compare", spoiled_id, "last", "--json").code == 0
        assert run(*exported).code == 0


def test_damaged_runs_are_named(root: Path) -> None:
    store = RunStore()
    name = spoiled(root, (RESULT, "{}"))
    spoiled(root, (ENVIRONMENT, "[]"))
    spoiled(root, (EVENTS, '{"step":1}\nnull\n{"step":3}\n'))
    found = store.read(name)
    assert (found.status, found.reason) == ("damaged", "its result.json is damaged")
    assert found.damaged_files == (ENVIRONMENT, RESULT)
    assert found.damaged == (2,)
    assert [event["step"] for event in found.measurements] == [1, 3]
    assert f"{found.started_s:.6f}".endswith(name[16:22]), "the start is in the name as well"
    assert "damaged: env.json, result.json, line 2 of events.jsonl" in " ".join(run("runs", "show", name).out.split())


@pytest.mark.parametrize("name", [CONFIG, ENVIRONMENT, EVENTS, RESULT])
@pytest.mark.parametrize("kind", ["pipe", "folder", "endless"])
def test_non_files_in_a_run_mark_it_damaged_without_blocking(root: Path, name: str, kind: str) -> None:
    spoiled_id = spoiled(root, (name, ""))
    path = root / spoiled_id / name
    path.unlink()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "endless":
            path.symlink_to("/dev/zero")
    assert [row["id"] for row in run("runs", "--json").json()["runs"]][1] == spoiled_id
    with pytest.raises(BadInput):
        RunStore().delete(spoiled_id)
    assert (root / spoiled_id / CONFIG).exists() or name == CONFIG


# --- what is not a run --------------------------------------------------------------------------------------------


def model_folder(path: Path) -> Path:
    """As a Hugging Face model lies on a disk."""
    path.mkdir(parents=True)
    (path / CONFIG).write_text('{"model_type": "llama", "hidden_size": 4096}')
    (path / "weights.bin").write_text("w")
    return path


@pytest.mark.parametrize("name", ["llama-7b", "zephyr", "2026-model", "20269999T999999.000000-train", "last"])
def test_a_foreign_folder_is_not_a_run(root: Path, name: str) -> None:
    newest = RunStore().ids()[-1]
    model = model_folder(root / name)
    assert run("runs", "delete", "last", "--json").json()["done"] == f"deleted {newest}"
    assert len(run("runs", "--json").json()["runs"]) == 1
    if name != "last":
        assert run("runs", "delete", name).code == 2
    assert sorted(path.name for path in model.iterdir()) == [CONFIG, "weights.bin"]


def test_a_store_with_only_foreign_folders_has_no_runs(tmp_path: Path) -> None:
    model = model_folder(tmp_path / "llama-7b")
    for words in (("delete", "last"), ("delete", "llama-7b"), ("show", "last")):
        assert "there are no runs" in run("runs", *words, "--runs", str(tmp_path)).refusal()
    assert len(list(model.iterdir())) == 2


@pytest.mark.parametrize("name", ["x", "20991231T235959.000000-train"])
def test_no_link_is_followed_out_of_the_store(root: Path, tmp_path: Path, name: str) -> None:
    """Neither to a folder of somebody else nor to a run of another store, under whatever name."""
    other = RunStore(tmp_path / "other")
    other.start("train", {}).finish({})
    for target in (model_folder(tmp_path / "llama-7b"), other.root / other.ids()[0]):
        (root / name).symlink_to(target)
        before = sorted(path.name for path in target.iterdir())
        assert run("runs", "delete", name).code == 2
        assert run("runs", "delete", "last").code == 0
        assert sorted(path.name for path in target.iterdir()) == before
        (root / name).unlink()


def test_a_store_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    model = model_folder(root / "llama-7b")
    assert run("runs", "delete", "last", "--runs", str(tmp_path / "link"), "--json").json()["runs"] == 1
    assert len(RunStore().ids()) == 1
    assert len(list(model.iterdir())) == 2


def test_foreign_files_in_a_run_are_not_deleted(root: Path) -> None:
    store = RunStore()
    oldest, newest = store.ids()
    (root / newest / "notes.txt").write_text("what I learnt")
    (root / oldest / EVENTS).unlink()
    (root / oldest / EVENTS).symlink_to(root / newest / EVENTS)
    for name, held in ((newest, "'notes.txt'"), (oldest, f"'{EVENTS}'")):
        refusal = run("runs", "delete", name).refusal()
        assert f"holds {held}, which Lockstep did not write" in refusal
        assert (root / name / CONFIG).exists()
    assert store.read(newest).measurements


def test_a_run_that_may_still_run_is_not_deleted(root: Path) -> None:
    name = spoiled(root, (ENVIRONMENT, "[]"))
    (root / name / RESULT).unlink()
    assert "whether it still runs is not known" in run("runs", "delete", name).refusal()
    assert (root / name / CONFIG).exists()


# --- the index -------------------------------------------------------------------------------------------------------


def other_columns(path: Path) -> None:
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as base:
        base.execute("CREATE TABLE runs (id TEXT, score REAL)")


def other_tables(path: Path) -> None:
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        base.execute("CREATE TABLE experiments (name TEXT)")
        base.execute("INSERT INTO experiments VALUES ('mine')")


def wrong_values(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        base.execute("UPDATE runs SET started_s = 'soon', events = 'many', status = 7")


def folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


INDEXES: dict[str, tuple[Callable[[Path], None], bool]] = {
    "other columns": (other_columns, True),
    "wrong values": (wrong_values, True),
    "other tables": (other_tables, False),
    "a folder": (folder, False),
    "a pipe": (pipe, False),
}
"""What lies in the place of the index, and whether it is ours to rebuild."""


@pytest.mark.parametrize("kind", INDEXES)
def test_lists_are_right_for_any_content_of_the_index_file(root: Path, kind: str) -> None:
    rows = RunStore().rows()
    change, ours = INDEXES[kind]
    change(RunStore().index.path)
    assert RunStore().rows() == rows
    if ours:
        assert run("runs", "reindex", "--json").json()["runs"] == 2
    else:
        assert "move it away" in run("runs", "reindex").refusal()
    assert RunStore().rows() == rows


def test_a_foreign_database_is_not_modified(root: Path) -> None:
    path = RunStore().index.path
    other_tables(path)
    before = path.read_bytes()
    for words in ((), ("reindex",), ("delete", "last")):
        run("runs", *words)
    assert path.read_bytes() == before


@contextlib.contextmanager
def not_writable(store: Path) -> Iterator[None]:
    """A store that this process may only read; a process of root becomes another user for it."""
    for path in (store, *store.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    if os.getuid() == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(os.getuid())
        for path in (store, *store.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.fixture
def open_store(root: Path) -> Iterator[Path]:
    """The two runs where every user of the machine can reach them."""
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        shutil.copytree(root, Path(made) / "runs")
        yield Path(made) / "runs"


@pytest.mark.parametrize("indexed", [True, False])
def test_a_read_only_store_is_listed(open_store: Path, indexed: bool) -> None:
    store, words = RunStore(open_store), ("--runs", str(open_store))
    expected = [row.id for row in store.rows()]
    if not indexed:
        store.index.remove()
    with not_writable(open_store):
        assert [row["id"] for row in run("runs", *words, "--json").json()["runs"]] == expected[::-1]
        assert run("runs", "show", "last", *words).code == 0
        assert "Permission denied" in run("runs", "delete", "last", *words).refusal()
        if indexed:
            assert "cannot be removed" in run("runs", "reindex", *words).refusal()
        with pytest.raises(BadInput, match="cannot keep runs in"):
            store.start("train", {})
    assert len(store.ids()) == 2


def test_a_file_is_not_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for words in ((), ("show", "last"), ("reindex",)):
        assert run("runs", *words, "--runs", str(tmp_path / "file")).refusal().startswith("--runs: cannot read runs")


# --- a disk that is full ---------------------------------------------------------------------------------------------


def full(*_: object) -> int:
    raise OSError(28, "No space left on device")


def recorded(root: Path, then: Callable[[], object]) -> None:
    """A run of two events and an answer; `then` happens after the first event."""
    with kept("train", {}, root) as record:
        record(step=1)
        then()
        record(step=2)
        record.result = {"loss": 1.0}


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_run_that_cannot_be_recorded_any_more_ends_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Without room for an event, or for the answer at the end."""
    with pytest.raises(RunFailed, match=r"^run 2\S+-train cannot be recorded in .*: No space left on device"):
        recorded(tmp_path, lambda: monkeypatch.setattr(os, call, full))
    monkeypatch.undo()
    found = RunStore(tmp_path).read("last")
    assert [event["step"] for event in found.measurements] == ([1] if call == "write" else [1, 2])
    assert list(tmp_path.rglob("*.tmp")) == []


def test_a_partially_written_event_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As much as there is room for is written; the rest is not, and the next event stands in its place."""
    writer = RunStore(tmp_path).start("train", {})
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[: len(data) // 2]))
    with pytest.raises(NotRecorded, match="No space left on device"):
        writer.record(step=1)
    monkeypatch.undo()
    writer.record(step=2)
    writer.finish({})
    assert [event["step"] for event in RunStore(tmp_path).read("last").measurements] == [2]


def test_a_run_that_cannot_start_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadInput, match=r"cannot keep runs in .*: No space left on device"):
        RunStore(tmp_path / "runs").start("train", {})
    monkeypatch.undo()
    assert list((tmp_path / "runs").iterdir()) == []


# --- curves ----------------------------------------------------------------------------------------------------------


def test_out_of_range_values_become_infinite_and_invalid_steps_are_counted(root: Path, tmp_path: Path) -> None:
    """Values beyond 32 bits are infinite, as TensorFlow writes them; steps that are none are left out and counted."""
    values = {3: 1e39, -5: -1e300, 4.0: 2.0, 2**63: 1.0, 1.5: 1.0, None: 1.0, "7": 1.0}
    events = [*({"step": step, "loss": loss} for step, loss in values.items()), {"step": True, "loss": 1.0}]
    lines = [json.dumps(event) for event in events] + ['{"step":1e400,"loss":1}', f'{{"step":6,"loss":{"9" * 400}}}']
    name = spoiled(root, (EVENTS, "\n".join(lines) + "\n"))
    done = run("runs", "export", name, "--tensorboard", str(tmp_path / "curves"), "--json").json()["done"]
    assert done.endswith("without 6 events whose step is not a 64-bit integer")
    inf = float("inf")
    assert curves(tmp_path / "curves" / name) == {"loss": [(3, inf), (-5, -inf), (4, 2.0), (6, inf)]}


def test_curves_that_cannot_be_written_are_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refusal = run("runs", "export", "last", "--tensorboard", str(tmp_path / "file")).refusal()
    assert refusal.startswith("--tensorboard: curves cannot be written to")


def curves_on_a_full_disk(folder: Path) -> None:
    with kept("train", {}, None, folder) as record:
        file = record.curves
        assert file is not None
        file._file.close()
        file._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115
        record(step=1, loss=0.5)


def test_curves_on_a_full_disk_end_the_run_with_a_message(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"^curves cannot be written to .*: No space left on device"):
        curves_on_a_full_disk(tmp_path)


def test_a_number_beyond_all_floats_is_compared_as_infinite(root: Path) -> None:
    name = spoiled(root, (RESULT, f'{{"status":"finished","reason":"","result":{{"loss":{"9" * 400}}}}}'))
    store = RunStore()
    assert compare(store.read("last"), store.read(name)).numbers["loss"] == (0.5, float("inf"))
    assert run("runs", "compare", "last", name).code == 0
