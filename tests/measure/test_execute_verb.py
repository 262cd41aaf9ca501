"""`lockstep execute` from the command line: answers, pictures, traces, refusals and failures."""

from __future__ import annotations

import gzip
import json
from functools import wraps
from importlib import import_module
from pathlib import Path

import pytest
from tests.cli_runner import run

import lockstep
from lockstep.base.errors import BadInput, install_line
from lockstep.base.store import RunStore
from lockstep.show.verbs.words.processes import world
from lockstep.show.views.parts import output
from lockstep.simulate.program import read_trace

from . import needs_torch as needs_torch


def test_a_collective_prints_its_verdict_and_writes_picture_and_trace(tmp_path: Path) -> None:
    picture, trace = tmp_path / "ring.png", tmp_path / "ring.json.gz"
    command = ["execute", "all-reduce", "--ranks", "2", "--size", "40KB", "--algorithm", "ring"]
    found = run(*command, "--plot", str(picture), "--trace", str(trace))
    assert found.code == 0
    assert "ring, on 2 ranks: bytes and messages as predicted; the predicted" in " ".join(found.out.split())
    assert "0 wrong elements against torch's own collective" in " ".join(found.out.split())
    assert picture.stat().st_size > 10_000
    assert read_trace(trace).source == "measured"
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    named = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert named == {"rank 0", "rank 1", "simulated rank 0", "simulated rank 1"}
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == 2 * len(read_trace(trace).program)
    assert len({event["id"] for event in events if event["ph"] == "s"}) == 2 * read_trace(trace).program.num_messages


def test_the_verdict_separates_bytes_from_time() -> None:
    """The link given is of seconds; both ranks are on this machine."""
    link = ("--latency", "2s", "--bandwidth", "1GB/s", "--repeats", "1")
    found = run("execute", "all-reduce", "--ranks", "2", "--size", "4KB", "--algorithm", "ring", *link)
    verdict = " ".join(found.out.split())
    assert found.code == 0
    assert "bytes and messages as predicted; the predicted time is" in verdict
    assert "% too long" in verdict
    assert "ran as predicted" not in verdict


def test_json_contains_both_timelines_and_the_counts() -> None:
    answer = lockstep.execute("all-gather", ranks=2, size="8KB", algorithm="ring", repeats=2).to_dict()
    assert answer["ok"]
    assert answer["sent_B"] == answer["predicted_sent_B"] == [4000, 4000]
    assert answer["messages"] == answer["predicted_messages"] == [1, 1]
    assert {answer["predicted"]["source"], answer["measured"]["source"]} == {"simulated", "measured"}


def test_a_pipeline_runs_its_schedule() -> None:
    answer = lockstep.execute(
        "pipeline", ranks=2, microbatches=4, schedule="1f1b", forward_s="1ms", backward_s="2ms", repeats=1
    )
    work_s = 4 * 3e-3
    assert answer.execution.ok
    assert answer.execution.measured.makespan_s >= work_s + 3e-3


STRAGGLERS = {
    "all-reduce": {"size": "8KB", "algorithm": "ring", "straggler": "2:60ms"},
    "pipeline": {"microbatches": 4, "forward_s": "5ms", "backward_s": "10ms", "straggler": "2:5x"},
}


@pytest.mark.parametrize("what", STRAGGLERS)
def test_a_straggler_is_located_and_predicted(what: str) -> None:
    """Four times 60 ms either way; a rank that sleeps takes at least that long, whatever else the machine does."""
    run = lockstep.execute(what, ranks=3, repeats=3, latency="100us", bandwidth="1GB/s", **STRAGGLERS[what]).execution
    assert run.ok
    assert run.late is not None
    assert run.late.rank == 2
    assert run.predicted.computing_s[2] - run.on_time.computing_s[2] == pytest.approx(0.24, rel=1e-3)
    assert run.measured.computing_s[2] >= 0.24
    assert run.predicted.makespan_s > run.on_time.makespan_s + 0.2


def test_runs_are_kept_and_compared(tmp_path: Path) -> None:
    command = [
        "execute",
        "all-reduce",
        "--ranks",
        "2",
        "--algorithm",
        "ring",
        "--repeats",
        "2",
        "--runs",
        str(tmp_path),
    ]
    for size in ("8KB", "80KB"):
        assert run(*command, "--size", size).code == 0
    record = RunStore(tmp_path).read("last")
    assert (record.verb, record.status, record.words["size_B"]) == ("execute", "finished", 80_000.0)
    assert record.result is not None
    assert sorted(event["makespan_s"] for event in record.measurements) == sorted(record.result["makespans_s"])
    first = RunStore(tmp_path).ids()[0]
    found = run("runs", "compare", first, "last", "--runs", str(tmp_path), "--json").json()
    assert found["words"]["size_B"] == [8000.0, 80_000.0]
    assert {"measured.makespan_s", "predicted.makespan_s"} <= {row["number"] for row in found["rows"]}
    assert found["series"]["makespan_s"]["second"] == [event["makespan_s"] for event in record.measurements]


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ({"what": "all-reduces", "ranks": 2, "size": "1KB"}, "WHAT"),
        ({"what": "all-reduce", "ranks": 2}, "--size"),
        ({"what": "all-reduce", "ranks": 0, "size": "1KB"}, "--ranks"),
        ({"what": "all-reduce", "ranks": 999, "size": "1KB", "algorithm": "tree"}, "--ranks"),
        ({"what": "all-reduce", "ranks": 2, "size": "1KB", "algorithm": "circle"}, "--algorithm"),
        ({"what": "all-reduce", "ranks": 2, "size": "1KB", "algorithm": ""}, "--algorithm"),
        ({"what": "all-reduce", "ranks": 2, "size": "1KB", "timeout": 1e30}, "--timeout"),
        ({"what": "all-reduce", "ranks": 2, "size": "1KB", "root": ""}, "--runs"),
        ({"what": "all-reduce", "ranks": 2, "size": "1KB", "microbatches": 4}, "--microbatches"),
        ({"what": "all-reduce", "ranks": 2, "size": "1KB", "trace": "ring.txt"}, "--trace"),
        ({"what": "all-reduce", "ranks": 2, "size": "1KB", "trace": "no/such/ring.json"}, "--trace"),
        ({"what": "all-reduce", "ranks": 2, "size": "1KB", "timeout": 0}, "--timeout"),
        ({"what": "all-reduce", "ranks": 2, "size": "1KB", "latency": "1us"}, "--bandwidth"),
        ({"what": "all-reduce", "ranks": 2, "size": "1KB", "backend": "mpi"}, "--backend"),
        ({"what": "all-reduce", "ranks": 2, "size": "1KB", "straggler": "2:1ms"}, "--straggler"),
        ({"what": "all-reduce", "ranks": 2, "size": "1KB", "straggler": "1:2x"}, "--straggler"),
        ({"what": "pipeline", "ranks": 2}, "--microbatches"),
        ({"what": "pipeline", "ranks": 2, "microbatches": 4, "size": "1KB"}, "--size"),
        ({"what": "pipeline", "ranks": 2, "microbatches": 4, "schedule": "2f2b"}, "--schedule"),
        ({"what": "pipeline", "ranks": 2, "microbatches": 4, "weight_s": "1ms"}, "--weight-s"),
    ],
)
def test_refusals_name_the_flag(words: dict[str, object], where: str) -> None:
    with pytest.raises(BadInput) as caught:
        lockstep.execute(**words)  # type: ignore[arg-type]
    assert caught.value.where == where


def test_an_undrawable_picture_is_refused_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "find_spec", lambda name: None)
    verb = import_module("lockstep.show.verbs.execute")
    monkeypatch.setattr(verb, "execute", wraps(verb.execute)(lambda **words: pytest.fail("ran")))
    message = run("execute", "all-reduce", "--ranks", "2", "--size", "1KB", "--plot", "ring.png").refusal()
    assert message == f"--plot: pictures need matplotlib: {install_line('plot')}"


def test_the_number_of_ranks_defaults_to_that_of_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    assert world(None) == 2
    for name, value in {"RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    assert world(None) == world("3") == 3
    with pytest.raises(BadInput, match="torchrun started 3 ranks, not 2") as caught:
        world(2)
    assert caught.value.where == "--ranks"
