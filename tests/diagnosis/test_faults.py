"""Runs with a known fault, one of each kind: the cause is found first, and its seconds are right.

`benchmarks/diagnose.py` draws hundreds.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from drawn import FAULTS, draw

from lockstep.base.types.plain import Json
from lockstep.describe.workload.parameters import parameters
from lockstep.explain.answer import Beside
from lockstep.explain.beside import beside
from lockstep.explain.measure import stragglers
from lockstep.explain.predicted import Shown, traces_of
from lockstep.explain.ranks import all_ranks
from lockstep.explain.replay import Replay, same
from lockstep.explain.seen import see
from lockstep.explain.trace import sorted_spans
from lockstep.show.verbs.estimate import estimate


@pytest.mark.parametrize("fault", FAULTS)
def test_the_injected_fault_is_found_with_its_seconds(fault: str, tmp_path: Path) -> None:
    """As drawn, to 5 %; a run without a fault is as predicted."""
    run = draw(7, fault)
    found = run.diagnosed(tmp_path)
    assert adds_up(found)
    assert found.as_predicted == (fault == "none")
    if fault == "none":
        assert not found.causes
        return
    first = found.causes[0]
    assert first.kind == fault
    assert first.seconds == pytest.approx(run.true_s(), rel=0.05)
    assert "{" not in first.cause + first.change
    for name in ("rank", "stage"):
        if name in run.told:
            assert f"{name} {run.told[name]}" in first.cause


@pytest.mark.parametrize(("seed", "fault"), [(6, "host"), (7, "ranks"), (27, "none")])
def test_faults_are_found_with_a_fifth_of_the_metadata_lost(seed: int, fault: str, tmp_path: Path) -> None:
    """Steps of seconds on hosts whose clocks drift, short ones, and one without a fault: as with all metadata."""
    run = draw(seed, fault)
    for folder in ("whole", "lost"):
        (tmp_path / folder).mkdir()
    whole, lost = run.diagnosed(tmp_path / "whole"), run.diagnosed(tmp_path / "lost", seen=0.8)
    assert lost.as_predicted == whole.as_predicted == (fault == "none")
    assert [one.kind for one in lost.causes] == [one.kind for one in whole.causes]
    for one, two in zip(lost.causes, whole.causes, strict=True):
        assert one.seconds == pytest.approx(two.seconds, rel=0.01)


def test_a_single_rank_is_compared_with_the_prediction_of_its_group() -> None:
    """Its collectives are held against those predicted for its group, whose other ranks nobody measured; the bytes of
    these show another model, which else would look like slow kernels. Without them, nothing does, and that is said.
    """
    words: Json = {"zero": 1, "batch": 32, "micro_batch": 1, "seq": 4096}
    found = estimate("llama3-8b", "dgx-h100:1", **words)
    every = all_ranks(found, range(8))
    alike = same(8, 1)
    trace = traces_of([Replay(every, alike).timeline((), 0)] * 4, Shown.of(every))[0]
    right = beside(found, see([trace], found.layout))
    assert right.as_predicted
    assert right.replayed_s == pytest.approx(right.measured_s, rel=1e-3)
    assert all(one.predicted_busbw_Bps == pytest.approx(one.busbw_Bps, rel=0.01) for one in right.collectives[:2])
    assert not any("model" in line for line in right.not_known)
    other = estimate("qwen2.5-3b", "dgx-h100:1", **words)
    wrong = beside(other, see([trace], other.layout))
    assert wrong.replayed_s == pytest.approx(wrong.measured_s, rel=0.05)
    bytes_times = parameters(found.job.model).total / parameters(other.job.model).total
    (line,) = [line for line in wrong.not_known if "another model" in line]
    assert f"{bytes_times:.2g} times" in line
    silent = replace(trace, spans=trace.spans.at(~trace.spans.communicates))
    (line,) = [line for line in beside(found, see([silent], found.layout)).not_known if "another model" in line]
    assert "no traffic" in line


def adds_up(found: Beside) -> bool:
    """The parts of both steps are the steps, and the replay is near the measured one."""
    assert found.replayed_s == pytest.approx(found.measured_s, rel=0.02)
    assert sum(one.measured_s or 0.0 for one in found.parts) == pytest.approx(found.measured_s, rel=1e-9)
    assert sum(one.predicted_s or 0.0 for one in found.parts) == pytest.approx(found.predicted_s, rel=0.02)
    return True


def test_a_slow_rank_is_named_although_collective_ends_do_not_match() -> None:
    """Ranks that hear of a collective's end at random, as on a busy machine: nothing can be matched, and still."""
    run = draw(3, "ranks")
    chance, heard = np.random.default_rng(1), []
    for trace in run.traces():
        spans = trace.spans
        late_s = chance.uniform(0.0, 20e-3, len(spans)) * spans.communicates
        heard.append(replace(trace, spans=sorted_spans(replace(spans, end_s=spans.end_s + late_s))))
    seen = see(heard, run.estimate.layout)
    assert (seen.aligned.matched_frac or 0.0) < 0.05
    first = stragglers(seen)[0]
    assert (first.rank, first.kind) == (run.told["rank"], "stays")
