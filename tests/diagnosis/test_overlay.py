"""The picture of a measured step over the predicted one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from lockstep.diagnosis.measure import see
from lockstep.diagnosis.overlay import write_overlay
from lockstep.diagnosis.predicted import Shown, traces_of
from lockstep.diagnosis.ranks import all_ranks
from lockstep.program import read_trace
from lockstep.simulate import simulate
from lockstep.verbs.estimate import estimate


def test_both_are_there(tmp_path: Path) -> None:
    """The measured step is read back, and takes as long as the step; the prediction has processes of its own."""
    found = estimate("gpt2-medium", "dgx-h100:1", tp=2, pp=2, micro_batch=1, batch=8, seq=1024, zero=1)
    one = all_ranks(found, range(8))
    seen = see(traces_of([simulate(one.program)] * 3, Shown.of(one)), found.layout)
    path = tmp_path / "both.json.gz"
    written = write_overlay(found, seen, path)
    back = read_trace(path)
    np.testing.assert_allclose(back.start_s, written.start_s)
    assert list(back.rank_names) == [f"rank {rank}" for rank in range(8)]
    # The host's own time at the end of a step has no span.
    assert back.makespan_s + float(found.step.other_s) == pytest.approx(float(seen.step_s[0]), rel=0.01)
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    called = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert {"rank 3", "predicted rank 3"} <= called
    spans = [event for event in events if event.get("ph") == "X" and event["pid"] >= 8]
    assert max(event["ts"] + event["dur"] for event in spans) == pytest.approx(1e6 * simulate_s(found), rel=1e-6)


def simulate_s(found) -> float:
    """The predicted step without waiting for slower ranks, which are written one by one."""
    return float(found.step_time_s - found.step.waiting_s)
