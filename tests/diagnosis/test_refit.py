"""The cluster as a run shows it predicts that run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lockstep.diagnosis.beside import beside
from lockstep.diagnosis.measure import see
from lockstep.diagnosis.predicted import Shown, traces_of
from lockstep.diagnosis.ranks import all_ranks
from lockstep.diagnosis.replay import Factors, Replay, same
from lockstep.hardware import cluster as find_cluster
from lockstep.measure.fit.cluster_file import paced_yaml
from lockstep.planner import Estimate
from lockstep.planner import estimate as price
from lockstep.verbs.estimate import estimate


def run(estimated: Estimate, **factors: object) -> tuple[object, float]:
    """(what diagnosis says of a run with some factors, what its step takes)."""
    one = all_ranks(estimated, range(estimated.layout.world))
    plain = same(one.program.ranks, max(one.stages) + 1)
    replay = Replay(one, Factors(**{**vars(plain), **factors}))  # type: ignore[arg-type]
    names = replay.factors.names
    line, shares = replay.timeline(names, 0), replay.shares(names, 0)
    shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-12)
    traces = traces_of([line] * 3, Shown.of(one), shares=[shares] * 3)
    return beside(estimated, see(traces, estimated.layout)), line.makespan_s


def test_slow_kernels_and_a_slow_link(tmp_path: Path) -> None:
    """Each is found as it is, and the estimate on the refitted cluster takes as long as the run."""
    estimated = estimate("llama3-8b", "dgx-h100:2", tp=8, micro_batch=1, batch=16, seq=4096, zero=1)
    slow = dict.fromkeys(("matmul", "attention", "elementwise"), 1.3)
    found, step_s = run(estimated, classes=slow, links={"tp": 2.0, "dp": 3.0})
    again = found.refit  # type: ignore[attr-defined]
    assert again.pace == pytest.approx(1.3, rel=1e-3)
    inner, outer = (level.name for level in estimated.cluster.levels)
    assert again.links[inner] == pytest.approx(2.0, rel=0.01)
    assert again.links[outer] == pytest.approx(3.0, rel=0.01)
    late_s = estimated.step_time_s - run(estimated)[1]
    assert price(estimated.job, again.paced, estimated.layout).step_time_s == pytest.approx(step_s + late_s, rel=0.07)
    path = tmp_path / "mine.yaml"
    pace = {"factor": again.pace, "error": again.error_frac, "source": "test", "date": "2026-11-25"}
    path.write_text(paced_yaml(again.cluster, "mine", pace))
    read = find_cluster(str(path))
    for one, two in zip(read.levels, again.cluster.levels, strict=True):
        assert one.link.achieved_frac == pytest.approx(two.link.achieved_frac)


def test_a_slow_rank_is_no_slow_device() -> None:
    """What one rank does is a fault of the run."""
    estimated = estimate("gpt2-medium", "dgx-h100:1", micro_batch=1, batch=16, seq=1024, zero=1)
    factor = np.ones((1, 8))
    factor[0, 5] = 1.5
    found, _ = run(estimated, ranks=factor)
    assert found.refit.pace == pytest.approx(1.0, rel=1e-3)  # type: ignore[attr-defined]
