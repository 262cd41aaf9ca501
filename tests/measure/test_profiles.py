"""Real faults on real ranks, found in the profiles that the ranks write."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import lockstep
from lockstep.diagnosis.changes import changes
from lockstep.diagnosis.measure import Seen, measured, see
from lockstep.diagnosis.read.kineto import read_kineto
from lockstep.measure.launch import launch

from . import profiled
from .profiled import VICTIM, work


def profiles(folder: Path) -> Seen:
    """The profiles of two ranks."""
    return see([read_kineto(folder / f"rank{rank}.json.gz") for rank in (0, 1)])


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("sleep", "host"),
        ("busy", "host"),
        pytest.param("nice", "", marks=pytest.mark.skipif(sys.platform != "linux", reason="chooses a core")),
    ],
)
def test_a_late_rank_is_named(fault: str, why: str, tmp_path: Path) -> None:
    """Rank 1, in every step, and by what it is late; a rank that shares its core is slow at everything."""
    launch(work, 2, (str(tmp_path), fault), timeout_s=120)
    seen = profiles(tmp_path)
    assert seen.aligned.matched_frac == 1.0
    found = measured(seen)
    slow = found.stragglers[0]
    assert (slow.rank, slow.kind) == (VICTIM, "stays")
    assert not why or slow.why == why
    if fault != "nice":
        assert slow.cost_s > 0.5 * profiled.FAULT_S
    parts = {one.part: one.measured_s or 0.0 for one in found.parts}
    assert sum(parts.values()) == pytest.approx(found.step_time_s, rel=1e-9)
    assert parts["dp_comm.waiting"] > 0


def test_train_writes_profiles_that_name_its_straggler(tmp_path: Path) -> None:
    """As does anyone's run under torch.profiler."""
    lockstep.train("synchronous", ranks=2, steps=10, batch=8, straggler="1:150ms", profile=tmp_path)
    found = measured(profiles(tmp_path))
    assert (found.stragglers[0].rank, found.stragglers[0].why) == (1, "host")
    (kind,) = {(one.group, one.op) for one in found.collectives}
    assert kind == ("dp", "all-reduce")


def test_what_changed_between_two_runs(tmp_path: Path) -> None:
    """A run with a sleeping rank against one without: the waiting in the all-reduce, or the host's idle time."""
    for fault in ("", "sleep"):
        (tmp_path / f"run{fault}").mkdir()
        launch(work, 2, (str(tmp_path / f"run{fault}"), fault), timeout_s=120)
    first = changes(profiles(tmp_path / "run"), profiles(tmp_path / "runsleep"))[0]
    assert first.operation in ("dp all-reduce, exposed", "idle.host")
    assert first.difference_s > 0


def test_execute_writes_a_trace_of_each_rank(tmp_path: Path) -> None:
    """Of the median run, on one clock."""
    answer = lockstep.execute("all-reduce", ranks=2, size="64KB", algorithm="ring", profile=tmp_path)
    traces = [read_kineto(tmp_path / f"rank{rank}.json.gz") for rank in (0, 1)]
    spans_s = max(float(one.spans.end_s.max()) for one in traces)
    assert spans_s == pytest.approx(answer.execution.measured.makespan_s, rel=0.2)
