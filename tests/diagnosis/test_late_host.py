"""A host that is late on all ranks goes into the cluster's file, and a plan with that file takes as long as the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lockstep
from lockstep.decide.planner.estimate import estimate as price
from lockstep.explain.predicted import Shown, traces_of
from lockstep.explain.ranks import AllRanks, all_ranks
from lockstep.explain.recalibrate import Recalibrated
from lockstep.explain.replay import Factors, Replay, same
from lockstep.explain.write_kineto import write_kineto
from lockstep.show.verbs.estimate import estimate
from lockstep.simulate.play import simulate

STEPS = 4
LARGE = {"model": "llama3-8b", "tp": 8, "micro_batch": 1, "batch": 8, "seq": 4096}
SMALL = {"model": "gpt2-medium", "micro_batch": 1, "batch": 16, "seq": 1024, "zero": 1}
"""Its passes are bound by launches as predicted."""


def written(folder: Path, one: AllRanks, factors: Factors) -> float:
    """Seconds of a step whose traces are written: durations with the factors and a noise of 1 %."""
    replay, lines, late = Replay(one, factors), [], []
    chance = np.random.default_rng(5)
    for step in range(STEPS):
        seconds, waited = replay.durations_s(factors.names, step)
        noise = chance.lognormal(0.0, 0.01, len(seconds))
        program = replay.timeline(factors.names, step).program
        lines.append(simulate(replace(program, columns={**program.columns, "duration_s": seconds * noise})))
        late.append(waited * noise)
    for trace in traces_of(lines, Shown.of(one), late, world=one.estimate.layout.world):
        write_kineto(trace, folder / f"{trace.rank}.json")
    return float(np.mean([line.makespan_s for line in lines[1:-1]]))


def diagnosed(folder: Path, words: dict[str, object]) -> tuple[Recalibrated, float]:
    """(the cluster as the traces show it, the step that `estimate` gives with its file)."""
    mine = folder / "mine.yaml"
    found = lockstep.diagnose(folder, cluster="dgx-h100:1", out=mine, **words)  # type: ignore[arg-type]
    assert found.recalibrated is not None
    named = {name: value for name, value in words.items() if name != "model"}
    again = estimate(str(words["model"]), str(mine), **named)  # type: ignore[arg-type]
    return found.recalibrated, again.step_time_s


@pytest.mark.parametrize("words", [LARGE, SMALL], ids=["bound by kernels", "bound by launches"])
def test_a_late_host_is_priced_as_measured(words: dict[str, object], tmp_path: Path) -> None:
    """Half of a step is waiting for launches; the file says by what factor, with its error, and gives that step."""
    one = _ranks(words)
    step_s = one.estimate.step_time_s
    measured_s = written(tmp_path, one, _late(one, np.full(8, 0.5 * step_s)))
    assert measured_s > 1.4 * step_s
    made, again_s = diagnosed(tmp_path, words)
    assert made.entry.launch is not None
    assert made.entry.launch.factor > 1.2
    assert 0.0 < made.entry.launch.error < 0.1
    told = {one.in_file: one.value for one in made.factors}
    assert told["pace.launch"] == made.entry.launch.factor
    pace = made.entry.model_dump(exclude_none=True)
    assert {name.split(".")[1] for name in told if name} <= set(pace)
    # What is waited before a step's first kernel is the step's, a small part of what is waited in all.
    if made.entry.step is not None:
        assert (made.entry.step.factor - 1) * one.estimate.step.other_s < 0.1 * (measured_s - step_s)
    assert again_s == pytest.approx(measured_s, rel=0.03)
    assert "host at each launch x" in made.source


def test_host_time_per_step_is_written_to_the_cluster_file(tmp_path: Path) -> None:
    """A run whose software takes six times as long between steps: that factor, and no other one of the host."""
    base = _ranks(LARGE).estimate
    slow = replace(base.cluster.device, efficiency=base.cluster.device.efficiency.slowed(1.0, step=6.0))
    run = all_ranks(price(base.job, replace(base.cluster, device=slow), base.layout), range(8))
    measured_s = written(tmp_path, run, _late(run, np.zeros(8)))
    made, again_s = diagnosed(tmp_path, LARGE)
    assert made.entry.launch is None
    assert made.entry.step is not None
    assert made.entry.step.factor == pytest.approx(6.0, rel=0.1)
    assert again_s == pytest.approx(measured_s, rel=0.03)


def test_intermittent_host_delays_are_reported_and_not_written(tmp_path: Path) -> None:
    """In one of the steps used the host is late, in the other it is not: no factor follows."""
    one = _ranks(LARGE)
    factors = _late(one, np.full(8, 0.5 * one.estimate.step_time_s))
    factors.host_s[::2] = 0.0
    written(tmp_path, one, factors)
    made, _ = diagnosed(tmp_path, LARGE)
    assert made.entry.launch is None
    assert made.entry.step is None
    assert any("so different times" in note for note in made.notes)


def test_one_late_rank_does_not_slow_the_software_factor(tmp_path: Path) -> None:
    """The host of one rank in eight is late: a fault of the run, which a plan does not repeat."""
    one = _ranks(LARGE)
    written(tmp_path, one, _late(one, np.where(np.arange(8) == 3, 0.3 * one.estimate.step_time_s, 0.0)))
    made, again_s = diagnosed(tmp_path, LARGE)
    assert made.entry.launch is None
    assert made.entry.step is None
    assert again_s == pytest.approx(one.estimate.step_time_s, rel=0.03)


def _ranks(words: dict[str, object]) -> AllRanks:
    return all_ranks(estimate(cluster="dgx-h100:1", **words), range(8))  # type: ignore[arg-type]


def _late(one: AllRanks, seconds: np.ndarray) -> Factors:
    alike = np.ones((STEPS, one.program.ranks))
    return replace(same(one.program.ranks, 1), ranks=alike, experts=alike, host_s=np.tile(seconds, (STEPS, 1)))
