"""The run store: what was acknowledged is kept, a run without an end says so, the index is never the truth."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from effort import share
from lockstep.base.errors import BadInput
from lockstep.base.store import FAILED, FINISHED, RUNNING, RunStore, RunWriter, compare
from lockstep.base.store.files import read_lines
from lockstep.base.store.index import Row
from lockstep.base.store.record import EVENTS


def write_until_killed(root: Path, number: int, out: int) -> NoReturn:
    """A run that prints its name, and every step after it was recorded."""
    run = RunStore(root).start("train", {"number": number})
    os.write(out, f"{run.id}\n".encode())
    for step in itertools.count():
        run.record(step=step, loss=1.0 / (step + 1), filling="x" * (step % 97))
        os.write(out, f"{step}\n".encode())
    raise AssertionError("a count that ends")


def killed_writer(root: Path, number: int) -> list[str]:
    """Lines of a writer that is killed after a number of steps that differs every time."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        write_until_killed(root, number, write)
    os.close(write)
    with open(read, encoding="utf-8") as lines:
        seen = [next(lines) for _ in range(2 + number % 23)]
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        seen += lines.readlines()
    return [line.strip() for line in seen if line.endswith("\n")]


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "runs")


def test_a_run_is_what_was_recorded(store: RunStore) -> None:
    with store.start("train", {"method": "ddp", "ranks": 2}, label="first try") as run:
        run.record(step=0, loss=2.5)
        run.record(step=1, loss=2.25)
        assert store.read(run.id).status == RUNNING
        run.finish({"loss": 2.25})
    record = store.read(run.id)
    assert (record.status, record.reason, record.result) == (FINISHED, "", {"loss": 2.25})
    assert record.measurements == [{"step": 0, "loss": 2.5}, {"step": 1, "loss": 2.25}]
    assert record.words == {"method": "ddp", "ranks": 2}
    assert record.ended_s is not None
    assert record.ended_s >= record.started_s
    assert json.loads(json.dumps(record.to_dict())) == record.to_dict()


def test_an_exception_is_the_reason_of_the_failure(store: RunStore) -> None:
    why = "rank 1 killed by SIGKILL during reduce-scatter step 3"
    with contextlib.suppress(RuntimeError), store.start("train", {}) as run:
        run.record(step=0)
        raise RuntimeError(why)
    record = store.read("last")
    assert (record.status, record.reason) == (FAILED, why)
    assert len(record.measurements) == 1


def test_kills_of_a_writer_lose_nothing_acknowledged(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs")
    kills = share(range(200), 5)
    for number in kills:
        name, *acknowledged = killed_writer(store.root, number)
        record = store.read(name)
        steps = [event["step"] for event in record.measurements]
        # One more may have been written whose acknowledgement was killed.
        assert steps[: len(acknowledged)] == [int(step) for step in acknowledged]
        assert len(steps) <= len(acknowledged) + 1
        assert record.damaged == ()
        assert (record.status, record.reason) == (
            FAILED,
            f"its process died without a message after {len(steps)} events",
        )
    assert len(store.rows()) == len(kills)


def test_a_torn_last_line_is_left_out_and_not_continued(store: RunStore) -> None:
    run = store.start("bench", {})
    run.record(step=0)
    events = run.path / EVENTS
    with events.open("ab") as file:
        file.write(b'{"step":1,"lo')
    assert read_lines(events) == ([{"step": 0}], [])
    RunWriter(run.path).record(step=2)
    assert read_lines(events) == ([{"step": 0}, {"step": 2}], [])


def test_a_damaged_line_is_named_and_the_others_kept(store: RunStore) -> None:
    run = store.start("bench", {})
    run.record(step=0)
    with (run.path / EVENTS).open("ab") as file:
        file.write(b"\x00\xffnothing\n")
    run.record(step=1)
    record = store.read(run.id)
    assert [event["step"] for event in record.measurements] == [0, 1]
    assert record.damaged == (2,)


def test_a_reused_process_id_is_not_the_writer(store: RunStore) -> None:
    run = store.start("bench", {}, environment={"pid": os.getpid(), "pid_started": "1"})
    assert store.read(run.id).status == FAILED


@pytest.mark.parametrize("damage", ["delete", "text", "empty", "other table"])
def test_the_index_is_rebuilt_from_the_directories(store: RunStore, damage: str) -> None:
    for number in range(3):
        store.start("bench", {"number": number}).finish({"number": number})
    rows = store.rows()
    match damage:
        case "delete":
            store.index.remove()
        case "text":
            store.index.path.write_text("no database " * 100)
        case "empty":
            store.index.path.write_bytes(b"")
        case "other table":
            store.index.update((), [row.id for row in rows[:2]])
    assert store.rows() == rows
    assert store.reindex() == 3
    assert store.rows() == rows


def test_a_run_can_be_named_by_its_ends_and_as_last(store: RunStore) -> None:
    ids = [store.start("bench", {}, label=f"size {number}").id for number in range(3)]
    assert store.read("size-1").id == ids[1]
    assert store.read("last").id == ids[2]
    with pytest.raises(BadInput, match=r"'2' is the beginning or end of \d runs"):
        store.read("2")
    with pytest.raises(BadInput, match="'nothing' is not a run"):
        store.read("nothing")
    with pytest.raises(BadInput, match="there are no runs"):
        RunStore(store.root / "elsewhere").read("last")


def test_a_newer_schema_is_refused(store: RunStore) -> None:
    run = store.start("bench", {})
    (run.path / "config.json").write_text('{"schema": 99, "verb": "bench", "words": {}}')
    with pytest.raises(BadInput, match="newer Lockstep"):
        store.read(run.id)


def test_runs_of_the_first_schema_are_read() -> None:
    """A directory as the first version wrote it; it stays here for ever."""
    record = RunStore(Path(__file__).parent / "schema_1").read("last")
    assert (record.verb, record.status, record.words["ranks"]) == ("train", FINISHED, 2)
    assert [event["loss"] for event in record.measurements] == [2.5, 2.25]
    assert record.result == {"loss": 2.25}


def test_a_running_run_is_not_deleted_and_a_deleted_id_does_not_return(store: RunStore) -> None:
    run = store.start("bench", {})
    with pytest.raises(BadInput, match="still running"):
        store.delete(run.id)
    run.finish({})
    assert store.delete("last") == run.id
    assert store.rows() == []
    assert store.start("bench", {}).id > run.id


def test_a_folder_that_cannot_be_written_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot keep runs"):
        RunStore(tmp_path / "file" / "runs").start("bench", {})


def test_comparison_shows_what_differs(store: RunStore) -> None:
    records = []
    for ranks, losses in ((2, [4.0, 2.0]), (4, [4.0, 1.0])):
        with store.start("train", {"method": "ddp", "ranks": ranks}) as run:
            for step, loss in enumerate(losses):
                run.record(step=step, loss=loss)
            run.finish({"loss": losses[-1], "step": {"time_s": 0.5 / ranks}})
        records.append(store.read(run.id))
    answer = compare(*records).to_dict()
    assert answer["words"] == {"ranks": [2, 4]}
    assert {row["number"]: row["change_frac"] for row in answer["rows"]} == {"loss": -0.5, "step.time_s": -0.5}
    assert answer["series"]["loss"] == {"first": [4.0, 2.0], "second": [4.0, 1.0]}


class StoreMachine(RuleBasedStateMachine):
    """Any order of starting, recording, ending, dying, listing, deleting and losing the index."""

    @initialize()
    def begin(self) -> None:
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.store = RunStore(Path(self.folder.name))
        self.open: dict[str, RunWriter] = {}
        self.ended: dict[str, list[int]] = {}
        self.recorded: dict[str, list[int]] = {}
        self.used: set[str] = set()

    @rule(label=st.sampled_from(["", "a", "b"]))
    def start(self, label: str) -> None:
        run = self.store.start("train", {"label": label}, label)
        assert run.id not in self.used
        self.used.add(run.id)
        self.open[run.id], self.recorded[run.id] = run, []

    @precondition(lambda self: self.open)
    @rule(data=st.data(), value=st.integers())
    def record(self, data: st.DataObject, value: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.open)))
        self.open[name].record(value=value)
        self.recorded[name].append(value)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), well=st.booleans())
    def end(self, data: st.DataObject, well: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.open)))
        run = self.open.pop(name)
        if well:
            run.finish({"sum": sum(self.recorded[name])})
        else:
            run.fail("said so")
        self.ended[name] = self.recorded.pop(name)

    @precondition(lambda self: self.ended)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.ended)))
        self.store.delete(name)
        del self.ended[name]

    @rule()
    def lose_the_index(self) -> None:
        self.store.index.remove()

    @invariant()
    def nothing_is_lost_or_changed(self) -> None:
        rows = {row.id: row for row in self.store.rows()}
        assert set(rows) == set(self.open) | set(self.ended)
        for name, values in (self.ended | self.recorded).items():
            record = self.store.read(name)
            assert [event["value"] for event in record.measurements] == values
            assert record.status == rows[name].status
            assert (record.status == RUNNING) == (name in self.open)
            if record.result is not None:
                assert record.result == {"sum": sum(values)}

    def teardown(self) -> None:
        for run in getattr(self, "open", {}).values():
            run.fail("the test ended")
        if hasattr(self, "folder"):
            self.folder.cleanup()


StoreMachine.TestCase.settings = settings(max_examples=15, stateful_step_count=12, derandomize=True, deadline=None)
test_any_order_of_events = StoreMachine.TestCase


def test_the_index_is_a_database_that_others_can_read(store: RunStore) -> None:
    store.start("bench", {}).finish({})
    store.rows()
    with sqlite3.connect(store.index.path) as base:
        assert base.execute("SELECT status FROM runs").fetchall() == [(FINISHED,)]
    base.close()


def test_columns_of_the_list_have_their_types() -> None:
    row = Row("id", "train", "label", FINISHED, "", 1.0, None, 3)
    assert row.is_sound()
    assert replace(row, ended_s=2.0).is_sound()
    wrong = {"id": 1, "verb": b"train", "label": None, "reason": 2.0, "started_s": 1, "ended_s": "", "events": 3.0}
    for name, value in {**wrong, "status": "asleep"}.items():
        assert not replace(row, **{name: value}).is_sound(), name
