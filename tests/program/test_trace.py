"""P14: a trace holds the timeline exactly, its slices are well-formed, and damaged or foreign files are handled."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from lockstep.base.errors import BadInput
from lockstep.simulate.play import simulate
from lockstep.simulate.program import COLUMNS, Program, read_trace, trace_events, write_trace
from lockstep.simulate.program.trace import TEXT_COLUMNS
from program.random_programs import Link, price, programs, random_program


@settings(derandomize=True, max_examples=30, deadline=None)
@given(programs)
def test_traces_round_trip(tmp_path_factory: pytest.TempPathFactory, program: Program) -> None:
    timeline = simulate(program, Link(), price=price)
    path = tmp_path_factory.mktemp("trace") / "a.json.gz"
    write_trace(timeline, path)
    again = read_trace(path)
    np.testing.assert_array_equal(again.start_s, timeline.start_s)
    np.testing.assert_array_equal(again.end_s, timeline.end_s)
    for name in COLUMNS:
        one, two = program.columns[name], again.program.columns[name]
        if name in TEXT_COLUMNS:
            assert [program.name(i) for i in one.tolist()] == [again.program.name(i) for i in two.tolist()]
        else:
            np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(program.after, again.program.after)
    np.testing.assert_array_equal(program.match, again.program.match)
    assert again.program.streams == program.streams
    first = path.read_bytes()
    write_trace(again, path)
    assert path.read_bytes() == first


@settings(derandomize=True, max_examples=30, deadline=None)
@given(programs)
def test_slices_do_not_overlap_and_flows_join_spans(program: Program) -> None:
    timeline = simulate(program, Link(), price=price)
    events = list(trace_events(timeline))
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == len(program)
    ends: dict[tuple[int, int], float] = {}
    for span in sorted(spans, key=lambda span: (span["ts"], span["args"]["id"])):
        track = span["pid"], span["tid"]
        assert names[track] == f"rank {span['pid']} / {program.streams[span['tid']]}"
        assert span["ts"] >= ends.get(track, 0.0) * (1 - 1e-12)
        ends[track] = span["ts"] + span["dur"]
    assert max(ends.values(), default=0.0) == pytest.approx(timeline.makespan_s * 1e6, rel=1e-12)
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    finishes = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == finishes.keys()
    assert len(starts) == program.num_messages
    for i, event in starts.items():
        assert (event["pid"], finishes[i]["pid"]) == (program.rank[i], program.peer[i])


def test_uncompressed_traces_have_readable_names(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_trace(simulate(random_program(1, 3, 30), Link(), price=price), path)
    data = json.loads(path.read_text())
    titles = {event["name"] for event in data["traceEvents"]}
    assert any(title.startswith("send to ") for title in titles)
    assert read_trace(path).program.ranks == 3


def test_traces_name_their_ranks(tmp_path: Path) -> None:
    timeline = simulate(random_program(1, 3, 30), Link(), price=price)
    path = tmp_path / "a.json"
    write_trace(replace(timeline, rank_names=("a", "b", "c")), path)
    again = read_trace(path)
    assert again.rank_names == ("a", "b", "c")
    assert {e["args"]["name"] for e in trace_events(again) if e["name"] == "process_name"} == {"a", "b", "c"}
    with pytest.raises(BadInput, match="1 names for 3 ranks"):
        replace(timeline, rank_names=("a",))


def foreign(events: list[dict[str, Any]]) -> str:
    return json.dumps({"traceEvents": events})


def test_traces_of_other_tools_are_read(tmp_path: Path) -> None:
    path = tmp_path / "profiler.json"
    events = [
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": 1, "args": {"name": "stream 7"}},
        {"ph": "X", "name": "gemm", "pid": 7, "tid": 1, "ts": 100.0, "dur": 50.0},
        {"ph": "X", "name": "inner", "pid": 7, "tid": 1, "ts": 110.0, "dur": 20.0},
        {"ph": "X", "name": "copy", "pid": 9, "tid": 1, "ts": 150.0, "dur": 10.0},
        {"ph": "i", "name": "mark", "pid": 9, "tid": 1, "ts": 1.0},
    ]
    path.write_text(foreign(events))
    timeline = read_trace(path)
    assert timeline.program.ranks == 2
    assert timeline.lanes == ((0, "stream 7"), (0, "stream 7/1"), (1, "1"))
    assert timeline.makespan_s == pytest.approx(60e-6)
    assert timeline.source == "measured"


@pytest.mark.parametrize(
    "content",
    [
        b"", b"not json", b"[1, 2]", b'{"traceEvents": 3}', b"\x1f\x8bnot gzip", gzip.compress(b"{", mtime=0),
        b"\xff\xfe\x00",
        b'{"traceEvents": []}', b'{"traceEvents": [{"ph": "X"}]}',
        b'{"traceEvents": [{"ph": "X", "ts": "x", "dur": 1}]}',
        b'{"otherData": {"format": "lockstep-timeline-1"}, "traceEvents": []}',
        b'{"otherData": {"format": "lockstep-timeline-1", "ranks": 1, "streams": ["a"]}, "traceEvents": [{"ph": "X"}]}',
    ],
)  # fmt: skip
def test_damaged_traces_are_bad_input(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.json.gz"
    path.write_bytes(content)
    with pytest.raises(BadInput):
        read_trace(path)


def test_a_missing_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nowhere"):
        read_trace(tmp_path / "nowhere.json")


def test_a_trace_without_receives_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_trace(simulate(random_program(1, 3, 30), Link(), price=price), path)
    data = json.loads(path.read_text())
    data["traceEvents"] = [e for e in data["traceEvents"] if e.get("cat") != "recv"]
    path.write_text(json.dumps(data))
    with pytest.raises(BadInput):
        read_trace(path)
