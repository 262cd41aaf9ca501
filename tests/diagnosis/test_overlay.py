"""The picture of a measured step over the predicted one."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np
import pytest

import lockstep
from lockstep.explain.overlay import write_overlay
from lockstep.explain.predicted import Shown, traces_of
from lockstep.explain.ranks import all_ranks
from lockstep.explain.seen import see
from lockstep.explain.write_kineto import write_kineto
from lockstep.price.layout import coordinates
from lockstep.show.verbs.estimate import estimate
from lockstep.show.views.parts.diagnosis import lanes, words
from lockstep.simulate.play import simulate
from lockstep.simulate.program import read_trace

WORDS = {"tp": 2, "pp": 2, "micro_batch": 1, "batch": 8, "seq": 1024, "zero": 1}


def test_the_trace_holds_the_measured_and_the_predicted_step(tmp_path: Path) -> None:
    """The measured step is read back, and takes as long as the step; the prediction has processes of its own."""
    found = estimate("gpt2-medium", "dgx-h100:1", **WORDS)
    one = all_ranks(found, range(8))
    seen = see(traces_of([simulate(one.program)] * 3, Shown.of(one)), found.layout)
    path = tmp_path / "both.json.gz"
    written = write_overlay(found, seen, path)
    back = read_trace(path)
    np.testing.assert_allclose(back.start_s, written.start_s)
    assert list(back.rank_names) == [f"rank {rank}" for rank in range(8)]
    assert back.makespan_s == pytest.approx(float(seen.step_s[0]), rel=1e-4)
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    called = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert {"rank 3", "predicted rank 3"} <= called
    spans = [event for event in events if event.get("ph") == "X" and event["pid"] >= 8]
    assert max(event["ts"] + event["dur"] for event in spans) == pytest.approx(1e6 * simulate_s(found), rel=1e-6)


def simulate_s(found) -> float:
    """The predicted step without waiting for slower ranks, which are written one by one."""
    return float(found.step_time_s - found.step.waiting_s)


def test_the_page_shows_the_slowest_rank_of_each_stage_below_the_prediction(tmp_path: Path) -> None:
    """Of four ranks per stage the slow one is drawn, with all that it did; the table is that of the terminal."""
    found = estimate("gpt2-medium", "dgx-h100:1", **WORDS)
    one = all_ranks(found, range(8))
    slow = np.where(one.program.rank == one.ranks.index(3), 1.5, 1.0)
    late = replace(one.program, columns={**one.program.columns, "duration_s": one.program.duration_s * slow})
    traces = traces_of([simulate(late)] * 3, Shown.of(one))
    for trace in traces:
        write_kineto(trace, tmp_path / f"{trace.rank}.json.gz")
    answer = lockstep.diagnose(tmp_path, model="gpt2-medium", cluster="dgx-h100:1", **WORDS)
    predicted, measured = answer.timelines()
    assert predicted.makespan_s == found.timeline().makespan_s
    seen = answer.operations
    assert seen is not None
    of = {name: rank for rank, name in enumerate(measured.rank_names)}
    stages = coordinates(found.layout)["pp"]
    assert of["rank 3"] == stages[3]
    assert len(of) == found.layout.pp
    assert {stages[int(name.split()[1])] for name in of} == set(range(found.layout.pp))
    spans = next(trace for trace in seen.traces if trace.rank == 3).spans
    window = next(each[0].window for trace, each in zip(seen.traces, seen.partitions, strict=True) if trace.rank == 3)
    inside = (spans.start_s >= window.start_s) & (spans.start_s < window.end_s)
    mine = measured.program.rank == of["rank 3"]
    assert float((measured.end_s - measured.start_s)[mine].sum()) == pytest.approx(
        float((spans.end_s - spans.start_s)[inside].sum())
    )
    form = lanes(answer)
    assert [one["source"] for one in form["timelines"]] == ["predicted", "measured"]
    answer.save(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert 'id="timeline-data"' in text
    assert answer.beside is not None
    shown = [part for part in answer.beside.parts if part.measured_s > 0.01 * answer.measured_s]
    assert len(shown) > 2
    assert all(escape(words(part.part)) in text for part in shown)


def test_a_page_without_a_model_shows_only_the_measurement(tmp_path: Path) -> None:
    """One timeline, of every rank, and the same parts and ranks as in the terminal; nothing predicted."""
    found = estimate("gpt2-medium", "dgx-h100:1", **WORDS)
    one = all_ranks(found, range(8))
    (tmp_path / "traces").mkdir()
    for trace in traces_of([simulate(one.program)] * 3, Shown.of(one)):
        write_kineto(trace, tmp_path / "traces" / f"{trace.rank}.json.gz")
    answer = lockstep.diagnose(tmp_path / "traces")
    (only,) = lanes(answer)["timelines"]
    assert only["source"] == "measured"
    assert {row["name"] for row in only["ranks"]} == {f"rank {rank}" for rank in range(8)}
    answer.save(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert 'id="timeline-data"' in text
    assert answer.seen is not None
    assert all(escape(words(part.part)) in text for part in answer.seen.parts if (part.measured_s or 0) > 1e-4)
    assert "predicted" not in text.partition("<main>")[2].partition("<script")[0]
