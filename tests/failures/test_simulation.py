"""Campaigns: second by second against a plain walk, on average against the exact formulas, losses that add up.

False alarms: seeds are fixed, so a test passes always or never. Comparisons allow 3.3 standard errors: with a fresh
seed one of them would fail once in 1,000 times though nothing is wrong, one of all some twenty once in 50.
"""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.base.engines import Answered, Batch, Engine
from lockstep.base.engines.packing import packed
from lockstep.base.errors import BadInput, Infeasible
from lockstep.simulate.failures import (
    LOSSES,
    Campaigns,
    Pattern,
    Weibull,
    expected_losses,
    incremental,
    intervals_of,
    optimum,
    run_time_s,
    simulate_blocks,
    simulate_campaigns,
    single,
    two_level,
)
from lockstep.simulate.failures.blocks import BLOCK
from lockstep.simulate.play import Empirical, Exponential, restarting

EXAMPLES = settings(max_examples=50, derandomize=True, deadline=None)
PATTERNS = {
    "single": single(0.02, 0.05, 0.03),
    "asynchronous": single(0.1, 0.05, 0.03, hidden_frac=0.9),
    "wholly hidden": single(0.05, 0.02, 0.0, hidden_frac=1.0),
    "two levels": two_level(0.01, 0.06, 4, 0.7, local_restart_s=0.02, remote_restart_s=0.2, detection_s=0.05),
    "two levels, hidden": two_level(0.01, 0.1, 3, 0.5, local_restart_s=0.1, remote_restart_s=0.3, hidden_frac=0.8),
    "incremental": incremental(0.06, 0.01, 5, restart_s=0.04, detection_s=0.02),
    "always hard": two_level(0.01, 0.05, 3, 0.0, local_restart_s=0.1, remote_restart_s=0.1),
}


class Script:
    """Given gaps one after another, then none: for one campaign."""

    def __init__(self, gaps_s: Sequence[float]) -> None:
        self.gaps_s = list(gaps_s)
        self.mean_s = 1e9

    def draw(self, generator: np.random.Generator, number: int) -> Any:
        return np.array([self.gaps_s.pop(0) if self.gaps_s else math.inf])


def walk(pattern: Pattern, work_s: float, intervals: int, gaps_s: Sequence[float]) -> dict[str, float]:
    """One campaign, piece by piece, for failures that are never hard: wall time and its parts."""
    gaps = [*gaps_s, math.inf]
    spent = {"wall": 0.0, "restart": 0.0, "detection": 0.0, "writing": 0, "restarting": 0, "failures": 0}
    saved, restart_s = 0, 0.0
    while True:
        left_s = gaps.pop(0)
        spent["failures"] += 1
        spent["wall"] += min(left_s, restart_s)
        spent["restart"] += min(left_s, restart_s)
        left_s -= restart_s
        if left_s < 0:
            spent["restarting"] += 1
        ahead_s = 0.0  # work of the coming interval done beside the last write
        while left_s >= 0:
            final = saved == intervals - 1
            write_s = 0.0 if final else pattern.costs_s[saved % pattern.every]
            piece_s = work_s - ahead_s + write_s
            if left_s < piece_s:
                spent["wall"] += left_s
                spent["writing"] += left_s > piece_s - write_s
                break
            left_s -= piece_s
            spent["wall"] += piece_s
            if final:
                return {**spent, "failures": spent["failures"] - 1}
            saved += 1
            ahead_s = pattern.hidden_frac * write_s
        restart_s = pattern.restarts_s[saved % pattern.every]
        spent["wall"] += pattern.detection_s
        spent["detection"] += pattern.detection_s


@EXAMPLES
@given(
    st.lists(st.floats(0.001, 0.9), max_size=30), st.integers(1, 12),
    st.sampled_from(["single", "asynchronous", "wholly hidden", "incremental"]),
)  # fmt: skip
def test_one_campaign_equals_a_second_by_second_walk(gaps_s: list[float], intervals: int, name: str) -> None:
    pattern = PATTERNS[name]
    found = simulate_campaigns(pattern, 0.2 * intervals, 0.2, Script(gaps_s), campaigns=1)
    want = walk(pattern, 0.2, intervals, gaps_s)
    assert found.wall_s[0] == pytest.approx(want["wall"], rel=1e-9)
    assert found.restart_s[0] == pytest.approx(want["restart"], abs=1e-9)
    assert found.detection_s[0] == pytest.approx(want["detection"], abs=1e-9)
    assert found.failures[0] == want["failures"]
    assert found.failures_restarting[0] == want["restarting"]
    assert found.failures_writing[0] == want["writing"]


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("intervals", [1, 40])
def test_simulation_agrees_with_the_exact_time(name: str, intervals: int) -> None:
    pattern, mtbf_s = PATTERNS[name], 1.0
    found = simulate_campaigns(pattern, 0.15 * intervals, 0.15, Exponential(mtbf_s), campaigns=4000, seed=6)
    exact_s = run_time_s(pattern, 0.15, intervals, mtbf_s)
    error_s = found.wall_s.std() / math.sqrt(len(found.wall_s))
    assert abs(found.wall_s.mean() - exact_s) < 3.3 * error_s
    assert error_s < 0.02 * exact_s


def test_patterns_with_a_formula_are_simulated() -> None:
    """Every way to build a pattern is in the table above."""
    import lockstep.simulate.failures.pattern as module

    returned = {name: getattr(value, "__annotations__", {}).get("return") for name, value in vars(module).items()}
    assert {name for name, kind in returned.items() if kind == "Pattern"} == {"single", "two_level", "incremental"}


def test_simulation_agrees_with_simpy() -> None:
    """The process of `simulate.restarting`, one failure at a time; 3.3 standard errors of both."""
    slow = restarting(2.0, Exponential(1.0), 0.05, 2000, segment_s=0.2, segment_cost_s=0.02, seed=3)
    fast = simulate_campaigns(single(0.02, 0.05), 2.0, 0.2, Exponential(1.0), campaigns=20_000, seed=4)
    error_s = math.hypot(slow.std_s / math.sqrt(len(slow)), fast.wall_s.std() / math.sqrt(len(fast.wall_s)))
    assert abs(slow.mean_s - fast.wall_s.mean()) < 3.3 * error_s


@pytest.mark.parametrize(("mtbf_h", "restart_min"), [(24.0, 10.0), (6.0, 10.0), (0.25, 10.0)])
def test_simulation_matches_dalys_cases(mtbf_h: float, restart_min: float) -> None:
    """His restart of 10 min; the optimum of the formula is not beaten beyond noise by its neighbours."""
    pattern, mtbf_s = single(300.0, restart_min * 60), mtbf_h * 3600
    best_s, work_s = optimum(pattern, mtbf_s).work_s, 400 * mtbf_s
    found = simulate_campaigns(pattern, work_s, best_s, Exponential(mtbf_s), campaigns=400, seed=1)
    number = intervals_of(work_s, best_s, pattern)
    low, high = (value * work_s + work_s for value in found.overhead.interval_s(0.999))
    assert low <= run_time_s(pattern, work_s / number, number, mtbf_s) <= high
    for factor in (0.5, 2.0):
        other = simulate_campaigns(pattern, work_s, factor * best_s, Exponential(mtbf_s), campaigns=400, seed=1)
        assert other.overhead.interval_s()[1] > found.overhead.interval_s()[0]


GOLDEN = [
    *((43_800 / 2048, 0.025, work) for work in (0.25, 0.5, 1.0175, 2.0, 4.0)),
    *((1260.0, 5.0, work) for work in (30.0, 60.0, 108.94, 240.0, 480.0)),
    (70_080 / 3072, 1 / 6, 2.6476), (105_120 / 3072, 1 / 3, 4.5567), (10.0, 5.0, 6.983),
    *((mtbf_min, 5.0, work) for mtbf_min, work in ((1440.0, 116.7), (360.0, 56.7), (15.0, 9.1))),
]  # fmt: skip
"""(M, delta, work): the worked cases of the references and Daly's three published optima, in hours or minutes."""


def test_simulation_matches_the_golden_table() -> None:
    """Formula inside the 95 % interval in at least 13 of 16 cases (fewer: once in 100 seeds), within 3.3 in all."""
    inside = 0
    for seed, (mtbf, write, work) in enumerate(GOLDEN):
        intervals = max(200, round(60 * mtbf / work))
        found = simulate_campaigns(
            single(write), intervals * work, work, Exponential(mtbf), campaigns=1000, seed=seed
        ).overhead
        expected = run_time_s(single(write), work, intervals, mtbf) / (intervals * work) - 1
        low, high = found.interval_s()
        inside += low <= expected <= high
        assert abs(found.mean_s - expected) < 3.3 / 1.96 * (high - low) / 2
    assert inside >= 13


@pytest.mark.parametrize("name", PATTERNS)
def test_every_second_is_accounted_for(name: str) -> None:
    found = simulate_campaigns(PATTERNS[name], 6.0, 0.15, Weibull(1.0, 0.7), campaigns=500, seed=2)
    parts = [found.checkpoint_s, found.rollback_s, found.restart_s, found.detection_s]
    assert all((part >= 0).all() for part in parts)
    assert sum(parts) + found.work_s == pytest.approx(found.wall_s, rel=1e-12)
    goodput = found.goodput.values_s
    assert ((goodput > 0) & (goodput <= 1)).all()
    losses = found.losses_frac()
    assert tuple(losses) == LOSSES
    assert found.goodput.mean_s + sum(losses.values()) == pytest.approx(1.0)
    assert (found.failures_restarting + found.failures_writing <= found.failures).all()
    assert (found.failures_writing.sum() > 0) or not any(PATTERNS[name].costs_s)
    assert found.failures_restarting.sum() > 0


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("intervals", [1, 7, 12])
def test_without_failures_a_run_is_its_work_and_its_checkpoints(name: str, intervals: int) -> None:
    pattern = PATTERNS[name]
    found = simulate_campaigns(pattern, 0.2 * intervals, 0.2, None, campaigns=3)
    writes_s = sum(pattern.costs_s[i % pattern.every] for i in range(intervals - 1)) * (1 - pattern.hidden_frac)
    assert found.wall_s.tolist() == pytest.approx([0.2 * intervals + writes_s] * 3)
    assert not found.rollback_s.any()
    assert found.to_dict()["finished_without_failure_frac"] == 1.0


class Scaled:
    """The same exponential draws, `factor` times as long: for runs that differ in nothing else."""

    def __init__(self, factor: float) -> None:
        self.mean_s = factor

    def draw(self, generator: np.random.Generator, number: int) -> Any:
        return self.mean_s * generator.exponential(1.0, number)


@pytest.mark.parametrize("name", PATTERNS)
def test_more_frequent_failures_never_help(name: str) -> None:
    times_s = [
        simulate_campaigns(PATTERNS[name], 3.0, 0.15, Scaled(mtbf_s), campaigns=2000, seed=5).wall_s.mean()
        for mtbf_s in (4.0, 2.0, 1.0, 0.7)
    ]
    assert times_s == sorted(times_s)


def test_same_seed_same_campaigns() -> None:
    first, again, other = (
        simulate_campaigns(PATTERNS["two levels"], 3.0, 0.15, Exponential(1.0), campaigns=50, seed=seed)
        for seed in (7, 7, 8)
    )
    assert first.to_dict() == again.to_dict()
    assert (first.wall_s == again.wall_s).all()
    assert (first.wall_s != other.wall_s).any()


EXPERIMENTS = 2000
"""P16: with 2,000 of them a true 95 % shows as 93.4 to 96.6 % but once in 1,000 seeds."""


def experiments(found: Campaigns) -> Iterator[Campaigns]:
    """Independent experiments: the campaigns in as many equal parts."""
    parts = [
        [getattr(found, field.name)] * EXPERIMENTS
        if field.name == "work_s"
        else np.split(getattr(found, field.name), EXPERIMENTS)
        for field in fields(Campaigns)
    ]
    return (Campaigns(*part) for part in zip(*parts, strict=True))


@pytest.mark.parametrize("name", ["single", "two levels"])
def test_intervals_cover_the_truth(name: str) -> None:
    """2,000 experiments of 100 campaigns: 95 % intervals hold the exact overhead, goodput and losses in 93 to 97 %."""
    pattern, covered = PATTERNS[name], dict.fromkeys(("overhead", "goodput", "rollback", "restart"), 0)
    losses = expected_losses(pattern, 0.15, 20, 1.0)
    exact = {"overhead": losses.wall_s / losses.work_s - 1, "goodput": losses.goodput_frac, **losses.fracs()}
    found = simulate_campaigns(pattern, 3.0, 0.15, Exponential(1.0), campaigns=100 * EXPERIMENTS, seed=11)
    for one in experiments(found):
        samples = {"overhead": one.overhead, "goodput": one.goodput, **one.losses()}
        for part in covered:
            low, high = samples[part].interval_s()
            covered[part] += low <= exact[part] <= high
    shares = {part: count / EXPERIMENTS for part, count in covered.items()}
    assert all(0.93 <= share <= 0.97 for share in shares.values()), shares


def test_bunched_failures_cost_less_than_regular_ones() -> None:
    """Same mean gap: many short gaps lose little work each, and the long ones let intervals through."""
    bunched, memoryless, regular = (
        simulate_campaigns(single(0.02, 0.0), 20.0, 0.2, Weibull(1.0, shape), campaigns=2000, seed=9).wall_s.mean()
        for shape in (0.5, 1.0, 4.0)
    )
    assert bunched < memoryless < regular


def test_failures_are_drawn_from_a_trace() -> None:
    """Gaps of 0.35 always: 0.2 + 0.02 is saved every time, the rest of 0.35 - 0.05 is lost but for the last."""
    found = simulate_campaigns(single(0.02, 0.05), 0.6, 0.2, Empirical((0.35,)), campaigns=2)
    assert found.failures.tolist() == [2, 2]
    assert found.wall_s.tolist() == pytest.approx([0.35 + 0.35 + 0.05 + 0.2] * 2)


def test_a_run_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Infeasible, match=r"does not end.* intervals of 20 s"):
        simulate_campaigns(single(1.0, 1.0), 1000.0, 20.0, Exponential(1.0), campaigns=2)
    monkeypatch.setattr("lockstep.simulate.failures.simulation.MOST_ROUNDS", 500)
    with pytest.raises(Infeasible, match=r"does not end.* intervals of 1 s"):
        simulate_campaigns(single(0.1), 10.0, 1.0, Empirical((0.5,)), campaigns=2)


def test_the_run_is_cut_into_equal_intervals() -> None:
    assert intervals_of(10.0, 3.0, single(0.1)) == 3
    assert intervals_of(10.0, 100.0, single(0.1)) == 1
    assert intervals_of(1.0, 0.1, single(0.4, hidden_frac=0.5)) == 5


@pytest.mark.parametrize(
    "words", [{"campaigns": 0}, {"interval_s": 0.0}, {"work_s": 0.0}, {"work_s": math.inf}, {"interval_s": 1e-12}]
)
def test_bad_input_is_refused(words: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        simulate_campaigns(single(0.1), **{"work_s": 10.0, "interval_s": 1.0, "law": None, **words})


@pytest.mark.parametrize("gaps_s", [[], [0.13], [0.13, 0.2]])
def test_wasted_work_equals_the_work_lost_to_failures(gaps_s: list[float]) -> None:
    """Two intervals of 0.2 s; each failure comes before anything is saved, the second after a restart of 0.05 s."""
    found = simulate_campaigns(PATTERNS["single"], 0.4, 0.2, Script(gaps_s), campaigns=1)
    assert found.failures[0] == len(gaps_s)
    assert found.rollback_s[0] == pytest.approx(sum(gaps_s) - 0.05 * (len(gaps_s) - 1) if gaps_s else 0.0, abs=1e-12)
    spent_s = 0.4 + 0.02 + found.rollback_s[0] + (0.05 + 0.03) * len(gaps_s)
    assert found.wall_s[0] == pytest.approx(spent_s)


@pytest.mark.parametrize(("gap_s", "writing"), [(0.5, 0), (0.5625, 1), (0.625, 0)])
def test_a_failure_counts_as_during_a_write_only_while_it_runs(gap_s: float, writing: int) -> None:
    """Intervals of 1/2 s and writes of 1/8 s, all exact in binary: the first write lasts from 0.5 to 0.625 s."""
    found = simulate_campaigns(single(0.125), 1.5, 0.5, Script([gap_s]), campaigns=1)
    assert found.failures[0] == 1
    assert found.failures_writing[0] == writing


class Instant(Engine):
    """Answers every block with the first one."""

    def run(self, function: Callable[[Any], Any], batches: Iterator[Batch]) -> Iterator[Answered]:
        answer: list[bytes] = []
        for batch in batches:
            answer = answer or [packed(function(batch.tasks[0]))]
            yield Answered(batch, answer * len(batch.tasks), 1.0)


def test_simulated_runs_are_stored_once() -> None:
    """Ten numbers each, and nothing else that grows with them."""

    def peak_B(blocks: int) -> int:
        tracemalloc.start()
        simulate_blocks(single(0.1, 0.1, 0.0), 10.0, 1.0, Exponential(20.0), campaigns=blocks * BLOCK, engine=Instant())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    held_B = 8 * (len(fields(Campaigns)) - 1)
    assert peak_B(40) - peak_B(20) <= 1.05 * held_B * 20 * BLOCK
