"""Nodes that break and come back: Erlang's loss formula, races of repairs, and the simulation of it all.

False alarms: seeds are fixed; comparisons allow 3.3 standard errors, as in test_simulation.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import share
from lockstep.base.errors import BadInput
from lockstep.simulate.failures import (
    LOSSES,
    LongRun,
    Pool,
    composed,
    in_service,
    incremental,
    lost_nodes,
    optimum,
    pattern_overhead_frac,
    pool_losses,
    pool_overhead_frac,
    run_time_s,
    simulate_campaigns,
    single,
    two_level,
)
from lockstep.simulate.play import Exponential

EXAMPLES = settings(max_examples=50, derandomize=True, deadline=None)
PATTERN = single(0.02, 0.05, 0.03)
POOLS = {
    "no spares, waits": Pool(16, 0, 0.3),
    "spares, waits": Pool(16, 2, 2.0),
    "shrinks": Pool(16, 1, 3.0, fewest=10),
    "shrinks by replicas": Pool(16, 1, 2.0, fewest=8, replica_nodes=4),
    "software and racks": Pool(32, 3, 2.0, fewest=20, lost=((0, 0.5), (1, 0.4), (4, 0.1))),
}
PATTERNS = {
    "single": PATTERN,
    "asynchronous": single(0.1, 0.05, 0.03, hidden_frac=0.9),
    "silent": replace(PATTERN, silent_frac=0.2, silent_delay_s=0.5),
}

CYCLES = {
    "two levels": two_level(0.01, 0.06, 4, 0.7, local_restart_s=0.02, remote_restart_s=0.2, detection_s=0.05),
    "deltas": incremental(0.05, 0.01, 5, restart_s=0.03, detection_s=0.02, hidden_frac=0.3),
}


def erlang_loss(servers: int, load: float) -> float:
    """B(0) = 1, B(c) = a B(c-1) / (c + a B(c-1))."""
    blocked = 1.0
    for server in range(1, servers + 1):
        blocked = load * blocked / (server + load * blocked)
    return blocked


@EXAMPLES
@given(spares=st.integers(0, 12), load=st.floats(0.01, 20))
def test_waiting_without_other_losses_matches_erlangs_formula(spares: int, load: float) -> None:
    service = in_service(Pool(100, spares, load), single(0.1), 1.0)
    assert service.wait_s / (1.0 + service.wait_s) == pytest.approx(erlang_loss(spares + 1, load), rel=1e-9)


@EXAMPLES
@given(nodes=st.integers(1, 40), spares=st.integers(0, 10), repair_s=st.floats(0.01, 30), detection_s=st.floats(0, 5))
def test_losses_and_repairs_are_in_equilibrium(nodes: int, spares: int, repair_s: float, detection_s: float) -> None:
    """One node per failure is lost; as many are repaired while the job is up, while nobody notices, and in the wait."""
    service = in_service(Pool(nodes, spares, repair_s, fewest=1), single(0.1, 0.0, detection_s), 1.0)
    assert service.share.sum() == pytest.approx(1.0)
    broken, gap_s = np.arange(len(service.share)), service.mtbf_s
    repaired_up = service.share @ (broken * gap_s / (repair_s + gap_s))
    at_failure = service.share @ (broken * repair_s / (repair_s + gap_s)) + 1
    unnoticed = at_failure * -math.expm1(-detection_s / repair_s)
    in_the_wait = service.wait_s / (repair_s / len(service.share))
    assert repaired_up + unnoticed + in_the_wait == pytest.approx(1.0, rel=1e-9)


def test_many_spares_or_quick_repairs_reduce_to_the_plain_formula() -> None:
    for pool in (Pool(16, 60, 2.0), Pool(16, 0, 1e-9)):
        want = float(pattern_overhead_frac(PATTERN, 0.2, 1.0))
        assert pool_overhead_frac(PATTERN, pool, 0.2, 1.0) == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize("name", ["no spares, waits", "spares, waits"])
def test_waiting_for_a_node_equals_a_longer_detection(name: str) -> None:
    service = in_service(POOLS[name], PATTERN, 1.0)
    slower = replace(PATTERN, detection_s=PATTERN.detection_s + service.wait_s)
    want = float(pattern_overhead_frac(slower, 0.2, 1.0))
    assert pool_overhead_frac(PATTERN, POOLS[name], 0.2, 1.0) == pytest.approx(want, rel=1e-9)


@EXAMPLES
@given(spares=st.integers(0, 6), repair_s=st.floats(0.05, 5), fewest=st.integers(2, 16))
def test_more_spares_and_quicker_repairs_never_hurt(spares: int, repair_s: float, fewest: int) -> None:
    waits = Pool(16, spares, repair_s)
    now = float(pool_overhead_frac(PATTERN, waits, 0.2, 1.0))
    assert float(pool_overhead_frac(PATTERN, replace(waits, spares=spares + 1), 0.2, 1.0)) <= now * (1 + 1e-9)
    assert float(pool_overhead_frac(PATTERN, replace(waits, repair_s=2 * repair_s), 0.2, 1.0)) >= now * (1 - 1e-9)
    assert replace(waits, fewest=fewest).most_broken >= waits.most_broken


@pytest.mark.parametrize(("name", "kind"), share(list(product(POOLS, PATTERNS)), 3))
def test_simulation_agrees_with_the_long_run(name: str, kind: str) -> None:
    pattern, pool, intervals = PATTERNS[kind], POOLS[name], 4000
    found = simulate_campaigns(pattern, 0.2 * intervals, 0.2, Exponential(1.0), pool=pool, campaigns=300, seed=3)
    expected = pool_losses(pattern, pool, 0.2, intervals, 1.0)
    overhead = float(pool_overhead_frac(pattern, pool, 0.2, 1.0))
    assert expected.wall_s == pytest.approx(expected.work_s * (1 + overhead), rel=1e-9)
    for loss in LOSSES:
        drawn = getattr(found, f"{loss}_s")
        error = drawn.std() / math.sqrt(len(drawn))
        # The last interval has no checkpoint, and the last gap is cut: a thousandth of a run this long.
        assert drawn.mean() == pytest.approx(expected.by_name()[loss], rel=1e-3, abs=3.3 * error), loss
    error = found.wall_s.std() / math.sqrt(len(found.wall_s))
    assert found.wall_s.mean() == pytest.approx(expected.wall_s, rel=1e-3, abs=3.3 * error)
    assert found.failures.mean() == pytest.approx(
        expected.failures, rel=1e-3, abs=3.3 * found.failures.std() / math.sqrt(len(found.failures))
    )


GROWS = ("checkpoint", "at-once")


@pytest.mark.parametrize(
    ("grows", "name", "kind"),
    share(list(product(GROWS, ["shrinks", "software and racks", "slow repairs"], PATTERNS)), 4),
)
def test_growing_before_a_failure_agrees_with_the_simulation(grows: str, name: str, kind: str) -> None:
    pool = replace(POOLS.get(name, Pool(16, 1, 30.0, fewest=4)), grows=grows)
    pattern, intervals = PATTERNS[kind], 4000
    found = simulate_campaigns(pattern, 0.2 * intervals, 0.2, Exponential(1.0), pool=pool, campaigns=300, seed=6)
    expected = pool_losses(pattern, pool, 0.2, intervals, 1.0)
    overhead = float(pool_overhead_frac(pattern, pool, 0.2, 1.0))
    assert expected.wall_s == pytest.approx(expected.work_s * (1 + overhead), rel=1e-9)
    parts = {**{f"{part}_s": seconds for part, seconds in expected.by_name().items()}, "wall_s": expected.wall_s}
    for part, seconds in {**parts, "failures": expected.failures}.items():
        drawn = getattr(found, part)
        error = drawn.std() / math.sqrt(len(drawn))
        assert drawn.mean() == pytest.approx(seconds, rel=2e-3, abs=3.3 * error), part


@EXAMPLES
@given(repair_s=st.floats(0.1, 30), work_s=st.floats(0.01, 2), spares=st.integers(0, 3))
@pytest.mark.parametrize("grows", GROWS)
def test_every_gap_ends_in_a_failure_or_in_a_planned_restart(
    grows: str, repair_s: float, work_s: float, spares: int
) -> None:
    pool = Pool(12, spares, repair_s, fewest=4, grows=grows)
    gaps = in_service(pool, PATTERN, 1.0, work_s).gaps
    assert gaps is not None
    assert gaps.failing.sum(axis=1) + gaps.growing.sum(axis=1) == pytest.approx(np.ones(len(gaps.mean_s)), rel=1e-9)
    assert (gaps.failing >= 0).all()
    assert (gaps.growing >= 0).all()
    # Failures come at a constant rate while a gap lasts, so its mean tells how many end it.
    speed_frac = pool.speed_frac(np.arange(len(gaps.mean_s)))
    assert gaps.failing.sum(axis=1) == pytest.approx(gaps.mean_s * speed_frac, rel=1e-9)


@pytest.mark.parametrize("grows", GROWS)
def test_without_missing_nodes_there_is_nothing_to_grow(grows: str) -> None:
    for pool in (Pool(16, 60, 2.0, fewest=4), Pool(16, 0, 1e7, fewest=15)):
        want = float(pool_overhead_frac(PATTERN, pool, 0.2, 1.0))
        assert pool_overhead_frac(PATTERN, replace(pool, grows=grows), 0.2, 1.0) == pytest.approx(want, rel=1e-5)


def test_with_free_restarts_growing_sooner_is_better() -> None:
    free = single(1e-4, 0.0, 0.0)
    pool = Pool(16, 1, 5.0, fewest=4)
    at_failure, at_checkpoint, at_once = (
        float(pool_overhead_frac(free, replace(pool, grows=grows), 1e-2, 1.0)) for grows in ("failure", *GROWS)
    )
    assert at_once < at_failure
    assert at_checkpoint < at_failure
    assert at_once == pytest.approx(at_checkpoint, rel=0.05)


def test_a_cycle_of_checkpoints_does_not_grow_before_a_failure() -> None:
    with pytest.raises(BadInput, match="one kind of checkpoint"):
        pool_overhead_frac(CYCLES["deltas"], replace(POOLS["shrinks"], grows="checkpoint"), 0.2, 1.0)


def test_a_cycle_of_checkpoints_that_waits_is_noticed_later() -> None:
    cycle, pool, intervals = CYCLES["two levels"], Pool(16, 1, 1.0), 4000
    found = simulate_campaigns(cycle, 0.2 * intervals, 0.2, Exponential(1.0), pool=pool, campaigns=300, seed=4)
    slower = replace(cycle, detection_s=cycle.detection_s + in_service(pool, cycle, 1.0).wait_s)
    error = found.wall_s.std() / math.sqrt(len(found.wall_s))
    assert found.wall_s.mean() == pytest.approx(run_time_s(slower, 0.2, intervals, 1.0), rel=1e-3, abs=3.3 * error)


@pytest.mark.parametrize(
    ("name", "kind"),
    share(list(product(["shrinks", "shrinks by replicas", "software and racks", "slow repairs"], CYCLES)), 3),
)
def test_a_cycle_of_checkpoints_shrinks_too(name: str, kind: str) -> None:
    """Position in the cycle and nodes away are taken as independent: nothing of it shows beside the cut last gap."""
    pattern, pool, intervals = CYCLES[kind], POOLS.get(name, Pool(16, 1, 30.0, fewest=4)), 4000
    found = simulate_campaigns(pattern, 0.2 * intervals, 0.2, Exponential(1.0), pool=pool, campaigns=300, seed=5)
    expected = pool_losses(pattern, pool, 0.2, intervals, 1.0)
    overhead = float(pool_overhead_frac(pattern, pool, 0.2, 1.0))
    assert expected.wall_s == pytest.approx(expected.work_s * (1 + overhead), rel=1e-9)
    parts = {**expected.by_name(), "wall": expected.wall_s}
    for part, seconds in parts.items():
        drawn = getattr(found, f"{part}_s")
        error = drawn.std() / math.sqrt(len(drawn))
        assert drawn.mean() == pytest.approx(seconds, rel=2e-3, abs=3.3 * error), part


def test_silent_corruption_is_a_failure_noticed_late() -> None:
    late = single(0.02, 0.05, 0.7)
    silent = replace(PATTERN, silent_frac=1.0, silent_delay_s=0.7)
    assert run_time_s(silent, 0.2, 50, 1.0) == pytest.approx(run_time_s(late, 0.2, 50, 1.0))
    first, second = (simulate_campaigns(one, 10.0, 0.2, Exponential(1.0), seed=1) for one in (late, silent))
    assert (first.wall_s == second.wall_s).all()
    assert (second.failures_silent == second.failures).all()
    assert optimum(silent, 1.0).work_s == optimum(PATTERN, 1.0).work_s


def test_kept_checkpoints_reach_back_before_the_corruption() -> None:
    """By walking: from any moment of corruption, checkpoints written until it is noticed, and one before."""
    pattern = replace(PATTERN, silent_frac=0.1, silent_delay_s=1.0)
    step = 0.2 + 0.02
    written = [math.floor((moment + 1.0) / step) for moment in np.linspace(0, step, 1000, endpoint=False)]
    assert pattern.kept(0.2) == max(written) + 1
    assert PATTERN.kept(0.2) == 1


def test_formulas_broadcast_over_the_work() -> None:
    pool, work_s = POOLS["shrinks"], np.array([0.1, 0.2, 0.4])
    one_by_one = [float(pool_overhead_frac(PATTERN, pool, one, 1.0)) for one in work_s]
    assert pool_overhead_frac(PATTERN, pool, work_s, 1.0) == pytest.approx(one_by_one, rel=1e-12)


def test_nothing_near_the_best_interval_is_better() -> None:
    for name, pool in POOLS.items():
        run = LongRun(PATTERN, 1.0, pool)
        best_s = run.best_s()
        for factor in (0.7, 0.95, 1.05, 1.5):
            assert run.overhead_frac(best_s * factor) >= run.overhead_frac(best_s), name
        losses = run.losses(0.2, 5000)
        assert losses.wall_s == pytest.approx(run.run_time_s(0.2, 5000), rel=1e-9)


def test_many_simultaneously_broken_nodes_are_handled() -> None:
    """An M/G/infinity queue: with spares without end the number of broken nodes is Poisson at any moment."""
    service = in_service(Pool(1, 10_000, 300.0), single(0.1), 1.0)
    broken = np.arange(len(service.share))
    mean = float(service.share_before @ broken)
    assert mean == pytest.approx(300.0, rel=1e-6)
    assert service.share_before @ broken**2 - mean**2 == pytest.approx(300.0, rel=1e-6)
    assert service.wait_s == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(BadInput, match="more than the model supports"):
        in_service(Pool(1, 100_000, 1e5), single(0.1), 1.0)


def test_racks_lose_their_nodes_together() -> None:
    failures = composed(64, nodes_per_rack=4, device_mtbf_s=64.0, rack_mtbf_s=4.0, software_mtbf_s=2.0)
    assert dict(lost_nodes(failures, 8)) == pytest.approx({0: 0.25, 1: 0.5, 4: 0.25})


@pytest.mark.parametrize(
    "wrong",
    [{"nodes": 0}, {"spares": -1}, {"repair_s": 0.0}, {"repair_s": math.inf}, {"fewest": 17}, {"fewest": 0},
     {"replica_nodes": 3}, {"grows": "soon"}, {"grows": "at-once"},
     {"grows": "checkpoint", "fewest": 8, "replica_nodes": 2},
     {"lost": ((1, 0.5),)}, {"lost": ((-1, 1.0),)}],
)  # fmt: skip
def test_bad_pools_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        Pool(**({"nodes": 16, "spares": 0, "repair_s": 1.0} | wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"silent_frac": 1.5}, {"silent_delay_s": -1.0}])
def test_bad_corruption_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadInput):
        replace(PATTERN, **wrong)
