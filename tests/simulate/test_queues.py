"""Queues and restarts against their formulas. Seeds are fixed; bounds are 5 standard errors (false alarm rate 6e-7)."""

from __future__ import annotations

import math
import re
import sys

import numpy as np
import pytest

from lockstep.base.errors import BadInput, install_line
from lockstep.simulate.play import (
    Constant,
    Exponential,
    Law,
    Sample,
    Uniform,
    circulate,
    closed_loop,
    queue,
    restarting,
)

SEEDS = range(20)
JOBS = 4000
WARM_UP = 500


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Mean over independent seeds and its standard error."""
    sample = Sample(np.array(values))
    return sample.mean_s, sample.std_s / math.sqrt(len(sample))


def test_m_m_1_time_in_system_matches_the_formula() -> None:
    # lambda = 0.5, mu = 1: 1 / (mu - lambda) = 2.
    runs = [queue(Exponential(2.0), Exponential(1.0), JOBS, seed=seed) for seed in SEEDS]
    mean, error = mean_and_error([float(run.time_in_system.values_s[WARM_UP:].mean()) for run in runs])
    assert abs(mean - 2.0) < 5 * error < 0.5


@pytest.mark.parametrize(
    ("service", "second_moment"), [(Constant(1.0), 1.0), (Uniform(0.5, 1.5), 1 + 1 / 12), (Exponential(1.0), 2.0)]
)
def test_waits_match_pollaczek_khinchine(service: Law, second_moment: float) -> None:
    # Wait lambda E[S^2] / (2 (1 - rho)) at rho = 0.5.
    runs = [queue(Exponential(2.0), service, JOBS, seed=seed) for seed in SEEDS]
    mean, error = mean_and_error([float(run.wait.values_s[WARM_UP:].mean()) for run in runs])
    assert abs(mean - 0.5 * second_moment / (2 * 0.5)) < 5 * error < 0.3


@pytest.mark.parametrize("servers", [1, 3])
def test_waits_follow_lindley(servers: int) -> None:
    # Kiefer-Wolfowitz recursion: the next job starts when it has arrived and the first server is free.
    run = queue(Exponential(1.0), Uniform(0.1, 3.0), 500, servers=servers, seed=3)
    free = [0.0] * servers
    for arrival, begin, end in zip(run.arrival_s, run.begin_s, run.end_s, strict=True):
        first = min(range(servers), key=free.__getitem__)
        assert begin == pytest.approx(max(arrival, free[first]), rel=1e-12)
        free[first] = end


def test_closed_loop_is_limited_by_work_or_by_the_server() -> None:
    # Throughput of n workers: min(n / (work + service), 1 / service) when times are constant.
    for workers, rate in ((1, 1 / 5), (3, 3 / 5), (5, 1.0), (20, 1.0)):
        run = closed_loop(Constant(4.0), Constant(1.0), workers, 200)
        assert len(run.end_s) == workers * 200
        assert workers * 200 / run.end_s.max() == pytest.approx(rate, rel=0.05)


def test_restarts_match_the_exact_mean() -> None:
    # M exp(R / M) (exp(W / M) - 1).
    sample = restarting(2.0, Exponential(3.0), 0.5, 3000, seed=1)
    exact = 3.0 * math.exp(0.5 / 3.0) * math.expm1(2.0 / 3.0)
    assert abs(sample.mean_s - exact) < 5 * sample.std_s / math.sqrt(len(sample))
    assert sample.values_s.min() >= 2.0


def test_restarts_without_failures() -> None:
    never = Constant(1e9)
    assert restarting(0.3, never, 1.0, 2).values_s.tolist() == pytest.approx([0.3, 0.3])
    # Three segments, two checkpoints between them.
    assert restarting(0.3, never, 1.0, 1, segment_s=0.1, segment_cost_s=0.02).mean_s == pytest.approx(0.34)
    assert restarting(0.35, never, 1.0, 1, segment_s=0.1, segment_cost_s=0.02).mean_s == pytest.approx(0.41)


def test_checkpoints_help_long_work() -> None:
    law = Exponential(1.0)
    without = restarting(5.0, law, 0.0, 300, seed=0).mean_s
    with_them = restarting(5.0, law, 0.0, 300, segment_s=0.25, segment_cost_s=0.02, seed=0).mean_s
    assert with_them < without / 5


def test_same_seed_same_run() -> None:
    one, two, other = (queue(Exponential(1.0), Exponential(0.5), 50, seed=seed) for seed in (4, 4, 5))
    assert one.end_s.tolist() == two.end_s.tolist() != other.end_s.tolist()


def test_invalid_queues_are_refused() -> None:
    for wrong in (
        lambda: queue(Exponential(1.0), Exponential(1.0), 0),
        lambda: queue(Exponential(1.0), Exponential(1.0), 1, servers=0),
        lambda: closed_loop(Constant(1.0), Constant(1.0), 0, 1),
        lambda: restarting(0.0, Exponential(1.0), 0.0, 1),
        lambda: restarting(1.0, Exponential(1.0), -1.0, 1),
    ):
        with pytest.raises(BadInput):
            wrong()


@pytest.mark.parametrize(("workers", "bound"), [(1, 0), (3, 0), (3, 1), (5, 2), (4, None)])
def test_no_worker_leads_the_slowest_by_more_than_the_bound(workers: int, bound: int | None) -> None:
    """With a server for everybody: a round begins after the own last one, and after all others' round before it."""
    rounds, draw = 12, np.random.default_rng(np.random.SeedSequence(workers))
    work_s, service_s = draw.exponential(1.0, (2, rounds, workers))
    left_s, end_s = np.zeros((2, rounds, workers))
    for turn in range(rounds):
        for worker in range(workers):
            waits_s = [end_s[turn - 1, worker]] if turn else [0.0]
            if bound is not None and turn > bound:
                waits_s.append(end_s[turn - 1 - bound].max())
            left_s[turn, worker] = max(waits_s)
        end_s[turn] = left_s[turn] + work_s[turn] + service_s[turn]
    found = circulate(work_s, service_s, servers=workers, bound=bound)
    np.testing.assert_allclose(found.left_s, left_s, rtol=1e-12)
    np.testing.assert_allclose(found.end_s, end_s, rtol=1e-12)


def test_missing_simpy_is_named_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simpy", None)
    for call in (
        lambda: queue(Exponential(1.0), Exponential(1.0), 1),
        lambda: closed_loop(Constant(1.0), Constant(1.0), 1, 1),
        lambda: restarting(1.0, Exponential(1.0), 0.0, 1),
    ):
        with pytest.raises(BadInput, match=re.escape(install_line("queues"))):
            call()
