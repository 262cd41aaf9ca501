"""Barrier cost and mitigations: exact order statistics, honest intervals, programs, and where a bound cannot help."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.base.errors import BadInput
from lockstep.simulate.failures.stragglers import (
    MITIGATIONS,
    Bounded,
    asynchronous,
    bounded,
    order_quantile_s,
    parse_mitigation,
    stragglers,
)
from lockstep.simulate.play import (
    Constant,
    Empirical,
    Exponential,
    Law,
    LogNormal,
    Noise,
    Normal,
    Pareto,
    Uniform,
    simulate,
)
from lockstep.simulate.program import ProgramBuilder

EXAMPLES = settings(max_examples=50, derandomize=True, deadline=None)
LAWS: tuple[Law, ...] = (
    Constant(0.05),
    Normal(0.05, 0.005),
    LogNormal(0.05, 0.3),
    Exponential(0.05),
    Uniform(0.04, 0.06),
    Pareto(0.03, 2.5),
    Empirical((0.04, 0.05, 0.05, 0.06, 0.2)),
)


@pytest.mark.parametrize(("cv", "percent"), [(0.05, 86.9), (0.1, 75.8), (0.2, 58.1), (0.3, 45.2), (0.5, 28.9)])
def test_barrier_efficiency_of_256_workers_matches_the_golden_value(cv: float, percent: float) -> None:
    """E[T] / E[max of 256] of log-normal times, to the digits of an independent simulation."""
    found = stragglers(256, LogNormal(0.05, cv), numbers=10_000)
    assert 100 * found.efficiency_frac == pytest.approx(percent, abs=0.06)
    assert found.amplification * found.efficiency_frac == pytest.approx(1.0)


def test_an_exponential_barrier_costs_the_harmonic_number() -> None:
    found = stragglers(64, Exponential(2.0), numbers=10_000)
    assert found.amplification == pytest.approx(sum(1 / j for j in range(1, 65)), rel=1e-12)
    assert found.amplification == pytest.approx(4.74389, abs=1e-5)


def test_a_heavy_tail_is_priced_and_noted() -> None:
    """Pareto with shape 1.5 and minimum 50 ms: mean 150 ms, slowest of 256 5.4 s; no variance, and it says so."""
    found = stragglers(256, Pareto(0.05, 1.5), numbers=10_000)
    assert found.mean_step_s == pytest.approx(5.4027, abs=1e-4)
    assert any("no variance" in text for text in found.assumptions)


EXACT = ("none", "backup:2", "drop:2", "bounded:0", "local:1")


def test_every_mitigation_has_a_closed_form_test() -> None:
    assert [text.partition(":")[0] for text in EXACT] == list(MITIGATIONS)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("mitigation", EXACT)
def test_simulation_finds_the_closed_form(law: Law, mitigation: str) -> None:
    """Within five standard errors of the mean."""
    found = stragglers(8, law, mitigation, comm_s=0.01, numbers=200_000)
    low, high = found.ci95
    assert found.exact
    assert abs(found.simulated_mean_s - found.mean_step_s) <= 2.6 * (high - low) / 2 + 1e-12


def test_the_95_percent_interval_covers_the_truth() -> None:
    """P16: of 2,000 seeds 93 to 97 % of the intervals hold the exact mean."""
    covered = 0
    for seed in range(2000):
        found = stragglers(4, Exponential(1.0), numbers=2_000, seed=seed)
        covered += found.ci95[0] <= found.mean_step_s <= found.ci95[1]
    assert 0.93 <= covered / 2000 <= 0.97


def test_the_engine_agrees_with_the_barrier_formula() -> None:
    """The same barrier as a program with jitter, drawn by the engine."""
    builder = ProgramBuilder(8, ("compute", "comm"))
    for rank in range(8):
        builder.compute(rank, 1.0)
    builder.barrier()
    sample = simulate(builder.build(), noise=Noise(per_operation=Exponential(1.0)), draws=4000).sample
    low, high = sample.interval_s()
    assert abs(sample.mean_s - stragglers(8, Exponential(1.0), numbers=1_000).mean_step_s) < 2 * (high - low)


@EXAMPLES
@given(st.sampled_from(LAWS[1:6]), st.integers(1, 30), st.data(), st.floats(0.01, 0.99))
def test_quantiles_of_order_statistics_match_the_exact_values(law: Law, n: int, data: Any, fraction: float) -> None:
    """Oracle: the incomplete beta function of scipy."""
    from scipy.special import betaincinv

    k = data.draw(st.integers(1, n))
    expected = law.quantile_s(float(betaincinv(k, n - k + 1, fraction)))
    assert order_quantile_s(law, k, n, fraction) == pytest.approx(expected, rel=1e-8)


def test_quantiles_of_a_step_are_those_of_the_simulation() -> None:
    for mitigation in ("none", "backup:3", "drop:3"):
        found = stragglers(16, LogNormal(1.0, 0.5), mitigation)
        drawn, _ = parse_mitigation(mitigation).steps_s(
            LogNormal(1.0, 0.5), np.ones(found.launched), 0.0, 1_000_000, np.random.Generator(np.random.PCG64(3))
        )
        assert np.quantile(drawn, [0.5, 0.95]) == pytest.approx([found.p50_s, found.p95_s], rel=0.02)


def test_every_mitigation_shortens_the_step() -> None:
    law = LogNormal(0.05, 0.5)
    plain = stragglers(32, law)
    backup, drop = stragglers(32, law, "backup:4"), stragglers(32, law, "drop:4")
    stale, local = stragglers(32, law, "bounded:3"), stragglers(32, law, "local:8")
    assert all(m.mean_step_s < plain.mean_step_s for m in (backup, drop, stale, local))
    assert backup.paid.duplicated_frac == 4 / 36
    assert drop.paid.lost_frac == 4 / 32
    assert stale.paid.stale_steps == 3
    assert local.paid.steps_between_averages == 8
    # Spares reach beyond what a dropped worker costs: all 32 gradients arrive.
    assert (backup.used, backup.launched, drop.used) == (32, 36, 28)
    # What is delivered never exceeds what the workers can compute.
    assert all(0 < m.efficiency_frac <= 1 for m in (plain, backup, drop, stale, local))


def test_local_steps_amortise_communication_exactly() -> None:
    found = stragglers(8, Constant(0.1), "local:5", comm_s=0.05)
    assert found.mean_step_s == pytest.approx(0.1 + 0.01, rel=1e-12)
    normal = stragglers(64, Normal(1.0, 0.1), "local:25", numbers=1_000_000)
    # Excess over the mean falls like 1 / sqrt(K).
    excess = stragglers(64, Normal(1.0, 0.1), numbers=10_000).mean_step_s - 1
    assert normal.mean_step_s - 1 == pytest.approx(excess / 5, rel=1e-9)
    assert normal.ci95[0] * 0.999 <= normal.mean_step_s <= normal.ci95[1] * 1.001


@EXAMPLES
@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 4), st.integers(0, 2**31))
def test_the_staleness_recurrence_equals_its_program(workers: int, steps: int, bound: int, seed: int) -> None:
    times_s = np.random.default_rng(seed).exponential(1.0, (steps, workers))
    timeline = simulate(bounded.program(times_s, bound))
    computing = timeline.program.kind == 0
    ends = timeline.end_s[computing].reshape(steps, workers)
    assert ends == pytest.approx(bounded.finish_s(times_s, bound), rel=1e-12)


@EXAMPLES
@given(st.integers(1, 5), st.integers(1, 12), st.integers(0, 2**31))
def test_looser_bounds_are_never_slower(workers: int, steps: int, seed: int) -> None:
    times_s = np.random.default_rng(seed).exponential(1.0, (steps, workers))
    ends = [bounded.finish_s(times_s, bound).max() for bound in range(4)]
    assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(ends))
    assert ends[0] == pytest.approx(times_s.max(axis=1).sum())
    assert bounded.finish_s(times_s, steps).max() == pytest.approx(times_s.sum(axis=0).max())


def test_a_finite_bound_does_not_help_against_persistent_slowness() -> None:
    """Half the workers at 120 steps/s, half at 80: every finite bound ends at 80 steps/s, it only gets there later."""
    slowdown = [1.0] * 4 + [1.5] * 4
    for bound in (0, 1, 10):
        found = stragglers(8, Constant(1 / 120), f"bounded:{bound}", slowdown=slowdown)
        assert found.mean_step_s == pytest.approx(1 / 80, rel=1e-9)
    times_s = np.tile(np.array(slowdown) / 120, (24_000, 1))
    for bound, rate in ((10, 80.03), (1000, 82.5)):
        done = (bounded.finish_s(times_s, bound) <= 200.0 * (1 + 1e-9)).sum(axis=0)
        assert done.mean() / 200.0 == pytest.approx(rate, abs=0.03)


def test_a_bound_helps_against_transient_slowness() -> None:
    """One step in ten takes five times as long: an event simulation made elsewhere, 16 workers at 120 steps/s."""
    law = Empirical((1 / 120,) * 9 + (5 / 120,))
    for bound, rate in ((0, 27.9), (1, 44.7), (2, 54.9), (5, 68.7), (10, 75.8), (50, 83.7)):
        found = stragglers(16, law, Bounded(bound), numbers=2_000_000)
        assert 1 / found.mean_step_s == pytest.approx(rate, rel=0.02)
    assert 1 / law.mean_s == pytest.approx(85.7, abs=0.05)


@EXAMPLES
@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=12))
def test_asynchronous_rates_add_and_delays_average_to_n_minus_1(times_s: list[float]) -> None:
    found = asynchronous(times_s)
    assert found.updates_per_s == pytest.approx(math.fsum(1 / t for t in times_s))
    assert found.mean_delay == pytest.approx(len(times_s) - 1, abs=1e-9)
    assert found.speedup >= 1 - 1e-12
    assert min(times_s) * (1 - 1e-12) <= found.batch_s <= math.fsum(times_s) / len(times_s) * (1 + 1e-12)


def test_asynchronous_rates_match_golden_values_and_an_event_loop() -> None:
    found = asynchronous((1.0, 1.0, 1.0, 10.0))
    assert (found.batch_s, found.speedup) == pytest.approx((1.29032, 7.75), abs=1e-5)
    assert found.delays == pytest.approx((2.1, 2.1, 2.1, 30.0))
    # Times that never tie, event by event.
    times = np.array([1.0, 1.37, 2.11, 5.03])
    ends = sorted((k * t, i) for i, t in enumerate(times) for k in range(1, int(20_000 / t)))
    read, delays = [0] * 4, [[], [], [], []]  # type: ignore[var-annotated]
    for version, (_, i) in enumerate(ends, start=1):
        delays[i].append(version - 1 - read[i])
        read[i] = version
    assert [np.mean(d) for d in delays] == pytest.approx(asynchronous(times.tolist()).delays, rel=0.01)
    assert len(ends) / 20_000 == pytest.approx(asynchronous(times.tolist()).updates_per_s, rel=0.01)


def test_same_seed_same_numbers() -> None:
    one, two = (stragglers(8, LogNormal(1.0, 0.3), "bounded:2", numbers=50_000, seed=5) for _ in range(2))
    assert one.to_dict() == two.to_dict()
    assert stragglers(8, LogNormal(1.0, 0.3), "bounded:2", numbers=50_000, seed=6).ci95 != one.ci95


@pytest.mark.parametrize(
    "make",
    [
        lambda: stragglers(0, Constant(1.0)),
        lambda: stragglers(4, Constant(1.0), "drop:4"),
        lambda: stragglers(4, Constant(1.0), "drop:-1"),
        lambda: stragglers(4, Constant(1.0), "local:0"),
        lambda: stragglers(4, Constant(1.0), "backups:1"),
        lambda: stragglers(4, Constant(1.0), "none:1"),
        lambda: stragglers(4, Pareto(1.0, 0.9)),
        lambda: stragglers(4, Constant(1.0), comm_s=-1.0),
        lambda: stragglers(4, Constant(1.0), slowdown=[1.0, 2.0]),
        lambda: stragglers(2, Constant(1.0), slowdown=[0.0, 2.0]),
        lambda: asynchronous([]),
        lambda: asynchronous([0.0]),
    ],
)
def test_bad_input_is_refused(make: Any) -> None:
    with pytest.raises(BadInput):
        make()


@pytest.mark.parametrize(("mitigation", "share"), [("none", 1.0), ("backup:2", 1.0), ("local:4", 0.25)])
def test_communication_is_listed_among_the_costs(mitigation: str, share: float) -> None:
    """A step's part of a synchronisation is what the step takes longer than without."""
    paying, free = (stragglers(8, Constant(0.05), mitigation, comm_s=comm_s) for comm_s in (0.02, 0.0))
    assert paying.to_dict()["comm_s"] == pytest.approx(0.02 * share)
    assert paying.mean_step_s - free.mean_step_s == pytest.approx(paying.comm_s)
