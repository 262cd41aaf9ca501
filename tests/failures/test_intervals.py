"""Intervals and expected times: published optima, golden values, independent roots, and limits of one another."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import lambertw

from lockstep.base.errors import BadInput
from lockstep.simulate.failures import (
    LongRun,
    Saving,
    best_cycle,
    cycle_time_s,
    daly_s,
    exact_s,
    first_order_overhead_frac,
    incremental,
    interval_time_s,
    optimum,
    overhead_curve,
    overhead_frac,
    pattern_overhead_frac,
    run_time_s,
    single,
    two_level,
    write_time_s,
    young_s,
)
from lockstep.simulate.failures.intervals import CYCLES

EXAMPLES = settings(max_examples=50, derandomize=True, deadline=None)
MINUTE_S, HOUR_S = 60.0, 3600.0
ratios = st.floats(1e-6, 10.0)
fracs = st.floats(0.0, 0.9)


@pytest.mark.parametrize(("mtbf_h", "minutes"), [(24.0, 116.7), (6.0, 56.7), (0.25, 9.1)])
def test_optima_match_dalys_published_ones(mtbf_h: float, minutes: float) -> None:
    """M = 24 h, 6 h, 15 min, delta = 5 min, R = 10 min: 117, 57 and 9.1 minutes."""
    write_s, mtbf_s = 5 * MINUTE_S, mtbf_h * HOUR_S
    assert daly_s(write_s, mtbf_s) / MINUTE_S == pytest.approx(minutes, abs=0.05)
    assert exact_s(write_s, mtbf_s) / MINUTE_S == pytest.approx(minutes, abs=0.1)
    assert optimum(single(write_s, 10 * MINUTE_S), mtbf_s).work_s == exact_s(write_s, mtbf_s)


GOLDEN = [
    (43_800 / 2048, 0.025, 1.0341, 1.0175, 1.0175, 0.0500),
    (70_080 / 3072, 1 / 6, 2.7576, 2.6476, 2.6476, 0.1313),
    (105_120 / 3072, 1 / 3, 4.7762, 4.5566, 4.5567, 0.1536),
    (10.0, 5.0, 10.0, 6.944, 6.983, 2.314),
    (21.0, 1 / 12, 112.25 / 60, 108.94 / 60, 108.94 / 60, 0.09464),
]


@pytest.mark.parametrize(("mtbf", "write", "young", "daly", "exact", "overhead"), GOLDEN)
def test_intervals_match_golden_values(
    mtbf: float, write: float, young: float, daly: float, exact: float, overhead: float
) -> None:
    assert young_s(write, mtbf) == pytest.approx(young, rel=1e-4)
    assert daly_s(write, mtbf) == pytest.approx(daly, rel=1e-4)
    assert exact_s(write, mtbf) == pytest.approx(exact, rel=1e-4)
    assert overhead_frac(exact_s(write, mtbf), write, mtbf) == pytest.approx(overhead, rel=2e-3)


@pytest.mark.parametrize(
    ("work_min", "overhead"), [(30, 0.1830), (60, 0.1118), (108.94, 0.09464), (240, 0.1268), (480, 0.2324)]
)
def test_overheads_match_golden_values(work_min: float, overhead: float) -> None:
    """M = 1260 min, delta = 5 min."""
    assert overhead_frac(work_min, 5.0, 1260.0) == pytest.approx(overhead, abs=5e-5)


def test_young_at_its_optimum_loses_the_square_root_of_twice_the_ratio() -> None:
    work = young_s(5.0, 1260.0)
    assert first_order_overhead_frac(work, 5.0, 1260.0) == pytest.approx(math.sqrt(2 * 5 / 1260))
    assert first_order_overhead_frac(work, 5.0, 1260.0) == pytest.approx(0.0891, abs=5e-5)


@EXAMPLES
@given(ratios, fracs)
def test_the_optimum_matches_lamberts_function(ratio: float, hidden: float) -> None:
    want = 1 + lambertw(-np.exp(-1 - (1 - hidden) * ratio)).real
    # scipy loses half of its digits at the branch point.
    assert exact_s(ratio, 1.0, hidden) == pytest.approx(max(want, hidden * ratio), rel=1e-6, abs=1e-7)


@EXAMPLES
@given(ratios, fracs)
def test_the_optimum_solves_its_equation(ratio: float, hidden: float) -> None:
    """-ln(1 - x) - x = (1 - f) delta / M, unless the write would not end in time."""
    x = float(exact_s(ratio, 1.0, hidden))
    if x > hidden * ratio:
        assert -math.log1p(-x) - x == pytest.approx((1 - hidden) * ratio, rel=1e-8)


@EXAMPLES
@given(ratios, fracs, st.floats(0, 3), st.floats(0, 3))
def test_nothing_near_the_optimum_is_better(ratio: float, hidden: float, restart: float, detection: float) -> None:
    best = float(exact_s(ratio, 1.0, hidden))
    words = {"hidden_frac": hidden, "restart_s": restart, "detection_s": detection}
    least = overhead_frac(best, ratio, 1.0, **words)
    for factor in (0.5, 0.9, 1.1, 2.0):
        if best * factor >= hidden * ratio:
            assert overhead_frac(best * factor, ratio, 1.0, **words) >= least


@EXAMPLES
@given(st.floats(1e-6, 0.01))
def test_formulas_converge_for_cheap_checkpoints(ratio: float) -> None:
    assert daly_s(ratio, 1.0) == pytest.approx(exact_s(ratio, 1.0), rel=1e-4)
    assert young_s(ratio, 1.0) - exact_s(ratio, 1.0) == pytest.approx(2 * ratio / 3, rel=0.1)


def test_formulas_broadcast() -> None:
    write, mtbf = np.array([[1.0], [3.0]]), np.array([10.0, 100.0, 1.0])
    for formula in (young_s, daly_s, exact_s):
        found = formula(write, mtbf)
        assert found.shape == (2, 3)
        assert found[1, 1] == formula(3.0, 100.0)
    assert daly_s(3.0, 1.0) == 1.0


@EXAMPLES
@given(st.floats(1e-4, 2.0), st.floats(1e-3, 0.5), st.floats(0, 2), st.floats(0, 2), st.floats(0, 1))
def test_the_recursion_equals_the_closed_form(
    extra: float, write: float, restart: float, detection: float, hidden: float
) -> None:
    work = hidden * write + extra
    pattern = single(write, restart, detection, hidden)
    closed = interval_time_s(work, write, 1.0, hidden_frac=hidden, restart_s=restart, detection_s=detection)
    assert cycle_time_s(pattern, work, 1.0) == pytest.approx(float(closed), rel=1e-10)


@EXAMPLES
@given(st.floats(0.01, 1.0), st.floats(0.001, 0.2), st.integers(1, 9), st.floats(0.0, 1.0))
def test_patterns_reduce_to_one_another(work: float, write: float, every: int, local: float) -> None:
    """Equal levels, deltas as dear as full ones, and local checkpoints that always serve are all the single one."""
    alone = every * float(cycle_time_s(single(write, 0.1, 0.05), work, 1.0))
    words = {"detection_s": 0.05}
    always = two_level(write, write, every, 1.0, local_restart_s=0.1, remote_restart_s=9.0, **words)
    same = incremental(write, write, every, restart_s=0.1, read_delta_s=0.0, **words)
    assert cycle_time_s(always, work, 1.0) == pytest.approx(alone, rel=1e-10)
    assert cycle_time_s(same, work, 1.0) == pytest.approx(alone, rel=1e-10)
    if every == 1:
        one = two_level(write, write, 1, local, local_restart_s=0.1, remote_restart_s=0.1, **words)
        assert cycle_time_s(one, work, 1.0) == pytest.approx(alone, rel=1e-10)


@EXAMPLES
@given(st.floats(0.01, 0.5), st.floats(0.001, 0.1), st.floats(0.0, 0.1), st.integers(1, 9))
def test_incremental_checkpoints_cost_a_sum_of_closed_forms(work: float, full: float, delta: float, every: int) -> None:
    """Nothing is lost but the interval itself: a closed form per position."""
    pattern = incremental(full, delta, every, restart_s=0.05, detection_s=0.02)
    parts = [
        interval_time_s(work, cost, 1.0, restart_s=0.05 + position * delta, detection_s=0.02)
        for position, cost in enumerate(pattern.costs_s)
    ]
    assert cycle_time_s(pattern, work, 1.0) == pytest.approx(float(sum(parts)), rel=1e-10)


def test_local_checkpoints_that_never_serve_are_one_long_interval() -> None:
    pattern = two_level(0.01, 0.02, 3, 0.0, local_restart_s=0.1, remote_restart_s=0.1)
    whole = interval_time_s(3 * 0.1 + 2 * 0.01, 0.02, 1.0, restart_s=0.1)
    assert cycle_time_s(pattern, 0.1, 1.0) == pytest.approx(float(whole), rel=1e-10)


@EXAMPLES
@given(st.floats(0.01, 1.0), st.floats(0.0, 0.2), st.integers(1, 20), st.integers(1, 5), st.floats(0, 1))
def test_without_failures_a_run_is_its_work_and_its_checkpoints(
    work: float, write: float, intervals: int, every: int, hidden: float
) -> None:
    pattern = two_level(write / 2, write, every, 0.5, hidden_frac=min(hidden, work / max(write, 1e-9)))
    checkpoints = sum(pattern.costs_s[i % every] for i in range(intervals - 1)) * (1 - pattern.hidden_frac)
    assert run_time_s(pattern, work, intervals, math.inf) == pytest.approx(intervals * work + checkpoints)
    assert run_time_s(pattern, work, intervals, 1e9) == pytest.approx(intervals * work + checkpoints, rel=1e-6)


@EXAMPLES
@given(st.floats(0.05, 1.0), st.integers(1, 5), st.floats(0.0, 1.0), st.floats(0.2, 5.0))
def test_more_frequent_failures_never_help(work: float, every: int, local: float, mtbf: float) -> None:
    pattern = two_level(0.01, 0.05, every, local, local_restart_s=0.02, remote_restart_s=0.1, detection_s=0.03)
    assert run_time_s(pattern, work, 12, mtbf) >= run_time_s(pattern, work, 12, 1.5 * mtbf)
    assert cycle_time_s(pattern, work, mtbf) >= cycle_time_s(pattern, work, 1.5 * mtbf)


@pytest.mark.parametrize(
    "pattern",
    [two_level(0.002, 0.05, 4, 0.8, local_restart_s=0.01, remote_restart_s=0.1),
     incremental(0.05, 0.004, 6, restart_s=0.1), single(0.05, hidden_frac=0.5), two_level(0.02, 0.02, 1, 0.5)],
)  # fmt: skip
def test_the_search_finds_scipys_minimum(pattern: object) -> None:
    found = optimum(pattern, 1.0)  # type: ignore[arg-type]
    want = minimize_scalar(
        lambda x: float(pattern_overhead_frac(pattern, math.exp(x), 1.0)),  # type: ignore[arg-type]
        bounds=(math.log(0.005), 0.5), method="bounded", options={"xatol": 1e-10},
    )  # fmt: skip
    assert found.overhead_frac == pytest.approx(want.fun, rel=1e-9)
    assert found.work_s == pytest.approx(math.exp(want.x), rel=1e-4)


def test_a_second_level_pays_only_when_it_is_cheaper() -> None:
    def make(local_s: float, local: float = 0.9):  # type: ignore[no-untyped-def]
        return lambda every: two_level(local_s, 0.05, every, local, local_restart_s=0.01, remote_restart_s=0.1)

    alone = optimum(two_level(0.05, 0.05, 1, 0.9, local_restart_s=0.01, remote_restart_s=0.1), 1.0)
    cheap = best_cycle(make(0.001), 1.0)
    assert cheap.pattern.every > 1
    assert cheap.overhead_frac < alone.overhead_frac
    assert best_cycle(make(0.05, 0.0), 1.0).pattern.every == 1


@pytest.mark.parametrize(
    "saving",
    [Saving(write_s=60.0, restart_s=600.0, local_write_s=2.0, local_restart_s=60.0, local_frac=0.9),
     Saving(write_s=60.0, restart_s=600.0, delta_write_s=5.0, hidden_frac=0.5),
     Saving(write_s=60.0, delta_write_s=5.0, silent_frac=0.3, silent_delay_s=3 * HOUR_S)],
)  # fmt: skip
def test_no_other_cycle_is_better(saving: Saving) -> None:
    best = optimum(saving.pattern(HOUR_S), HOUR_S).overhead_frac
    assert all(best <= optimum(saving.cycle(every), HOUR_S).overhead_frac for every in CYCLES)
    assert saving.pattern(HOUR_S).every > 1
    assert replace(saving, every=3).pattern(HOUR_S) == saving.cycle(3)
    assert saving.pattern(math.inf).costs_s == (60.0,)


@pytest.mark.parametrize(
    "wrong", [{"every": 2}, {"local_write_s": 1.0, "delta_write_s": 1.0}, {"local_write_s": 1.0, "every": 0}]
)
def test_contradictory_save_options_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadInput):
        Saving(write_s=60.0, **wrong).pattern(HOUR_S)  # type: ignore[arg-type]


def test_the_overhead_curve_contains_its_optimum() -> None:
    found = optimum(single(300.0, 600.0), 6 * HOUR_S)
    work_s, overhead = overhead_curve(LongRun(found.pattern, 6 * HOUR_S), found.work_s)
    assert overhead.min() == pytest.approx(found.overhead_frac)
    assert work_s[np.argmin(overhead)] == pytest.approx(found.work_s)
    assert (np.diff(np.sign(np.diff(overhead))) >= 0).all()


def test_shards_write_together_until_the_storage_is_full() -> None:
    """2.3 TB in 40 s is 57.5 GB/s; from 58 ranks of 1 GB/s on, more ranks do not help."""
    found = write_time_s(2.3e12, np.array([1, 10, 58, 384]), rank_Bps=1e9, storage_Bps=57.5e9)
    assert found.tolist() == pytest.approx([2300, 230, 40, 40])
    assert write_time_s(1e9, rank_Bps=1e9, latency_s=2.0) == 3.0


@EXAMPLES
@given(
    st.sampled_from([0.0, 1e-300, 1e-6, 1.0, 1e6, 1e11]), st.sampled_from([0.0, 1e-300, 1.0, 1e11]),
    st.sampled_from([1e-300, 1e-6, 1.0, 1e11]), st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 3),
)  # fmt: skip
def test_overheads_are_numbers_or_infinite_at_any_scale(
    write: float, restart: float, work: float, frac: float, every: int
) -> None:
    for pattern in (
        two_level(
            write / 3, write, every, frac, local_restart_s=restart, remote_restart_s=restart, detection_s=restart
        ),
        incremental(write, write / 3, every, restart_s=restart, hidden_frac=frac),
    ):
        found = pattern_overhead_frac(pattern, pattern.shortest_work_s + work, 1.0)
        assert found >= -1e-9
        assert run_time_s(pattern, pattern.shortest_work_s + work, 4, 1.0) >= 0


@pytest.mark.parametrize(
    "wrong",
    [lambda: optimum(single(0.0), 1.0), lambda: optimum(single(1.0), math.inf), lambda: optimum(single(1.0), 0.0),
     lambda: single(-1.0), lambda: single(1.0, hidden_frac=1.5), lambda: two_level(1.0, 1.0, 0, 0.5),
     lambda: two_level(1.0, 1.0, 2, 1.5), lambda: incremental(1.0, 1.0, 10**6), lambda: single(math.inf)],
)  # fmt: skip
def test_bad_input_is_refused(wrong: object) -> None:
    with pytest.raises(BadInput):
        wrong()  # type: ignore[operator]
