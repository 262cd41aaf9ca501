"""Rounds of local steps: identities with synchronous descent, closed forms, what the experiments assert."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lockstep
from lockstep.learn.lab.descent.workers import LocalMethod, run_rounds
from lockstep.learn.lab.experiments.local import local_identity, local_period
from lockstep.learn.lab.objectives import WorkerQuadratics, dirichlet_shards, unequal_workers
from lockstep.learn.lab.statistics import SignNoise
from lockstep.learn.methods.local import Outer

WORKERS = unequal_workers(5, 3, condition=4.0, shift=1.0, curvature_spread=0.4, seed=0)


def gradients(y: np.ndarray) -> np.ndarray:
    return WORKERS.curvatures[:, None, :] * (y - WORKERS.optima[:, None, :])


def run(method: LocalMethod, rounds: list[int]) -> np.ndarray:
    return run_rounds(gradients, WORKERS.workers, np.zeros((1, 3)), method, rounds)[:, 0]


def test_one_local_step_is_synchronous_descent() -> None:
    x = np.zeros(3)
    for found in run(LocalMethod(0.1), [1] * 20)[1:]:
        x = x - 0.1 * WORKERS.gradient(x)
        np.testing.assert_allclose(found, x, rtol=1e-12)


@pytest.mark.parametrize(
    "method",
    [
        LocalMethod(0.1, outer=Outer(1.0, 0.0, nesterov=True)),
        LocalMethod(0.1, participants=5),
        LocalMethod(0.1, momentum=0.0, buffers="reset"),
    ],
)
def test_methods_reduce_to_local_sgd(method: LocalMethod) -> None:
    np.testing.assert_array_equal(run(method, [4] * 5), run(LocalMethod(0.1), [4] * 5))


def test_averaged_momentum_with_one_step_is_momentum_of_the_mean() -> None:
    x, velocity = np.zeros(3), np.zeros(3)
    for found in run(LocalMethod(0.05, momentum=0.8, buffers="average"), [1] * 15)[1:]:
        velocity = 0.8 * velocity + WORKERS.gradient(x)
        x = x - 0.05 * velocity
        np.testing.assert_allclose(found, x, rtol=1e-10)


@given(st.integers(1, 30), st.floats(0.02, 0.3))
def test_rounds_end_at_the_closed_form(period: int, step: float) -> None:
    objective = WorkerQuadratics(np.array([[1.0], [3.0]]), np.array([[1.0], [-1.0]]))
    # A round keeps the mean of (1 - a h)^K of the distance to the fixed point, which is at most 1 long.
    kept = float(((1 - step * objective.curvatures) ** period).mean())
    rounds = math.ceil(math.log(1e-11) / math.log(kept))
    path = run_rounds(
        lambda y: objective.curvatures[:, None] * (y - objective.optima[:, None]), 2, np.zeros((1, 1)),
        LocalMethod(step), [period] * rounds,
    )  # fmt: skip
    assert path[-1, 0, 0] == pytest.approx(float(objective.local_fixed_point(step, period)[0]), abs=1e-9)


def test_fixed_points_match_golden_values() -> None:
    objective = WorkerQuadratics(np.array([[1.0], [4.0]]), np.array([[1.0], [-1.0]]))
    assert objective.optimum[0] == pytest.approx(-0.6)
    for period, end in ((1, -0.6), (2, -0.5422), (10, -0.2083), (100, -0.00001)):
        assert objective.local_fixed_point(0.1, period)[0] == pytest.approx(end, abs=5e-5)


def test_scaffold_ends_at_the_optimum_and_fedprox_does_not() -> None:
    optimum = WORKERS.optimum
    np.testing.assert_allclose(run(LocalMethod(0.1, scaffold=True), [8] * 400)[-1], optimum, atol=1e-9)
    assert np.abs(run(LocalMethod(0.1, proximal=1.0), [8] * 400)[-1] - optimum).max() > 1e-3
    assert np.abs(run(LocalMethod(0.1), [8] * 400)[-1] - optimum).max() > 1e-3


def test_scaffold_with_some_of_the_workers_still_ends_at_the_optimum() -> None:
    path = run_rounds(
        gradients,
        WORKERS.workers,
        np.zeros((4, 3)),
        LocalMethod(0.05, scaffold=True, participants=2),
        [4] * 3000,
        seed=3,
    )
    np.testing.assert_allclose(path[-1], np.broadcast_to(WORKERS.optimum, (4, 3)), atol=1e-6)


def test_the_number_of_vectors_counts_what_a_worker_sends() -> None:
    assert LocalMethod(0.1).vectors_per_round == 1
    assert LocalMethod(0.1, scaffold=True).vectors_per_round == 2
    assert LocalMethod(0.1, momentum=0.9, buffers="average").vectors_per_round == 2
    assert LocalMethod(0.1, momentum=0.9, buffers="reset").vectors_per_round == 1


@given(st.integers(2, 12), st.floats(0.05, 50), st.integers(0, 50))
def test_shards_partition_the_data(workers: int, concentration: float, seed: int) -> None:
    classes = np.arange(300) % 10
    shards = dirichlet_shards(classes, workers, concentration, seed)
    assert sorted(np.concatenate(shards).tolist()) == list(range(300))
    assert min(len(shard) for shard in shards) > 0


def test_a_large_concentration_gives_equal_mixes() -> None:
    classes = np.arange(4000) % 10
    for shard in dirichlet_shards(classes, 4, 1e6, 0):
        assert np.abs(np.bincount(classes[shard], minlength=10) - 100).max() <= 2


def test_dispersion_of_the_reference() -> None:
    found = lockstep.converge("local-drift", {"workers": (2, 4, 16, 64), "trials": 2000})
    laws = [law.value for law in found.theory]
    assert laws == pytest.approx([0.05, 0.075, 0.09375, 0.0984375])


def test_noise_is_shared_between_periods() -> None:
    noise = [SignNoise.of(1.0, (3, 1, 2), np.random.default_rng(7)) for _ in range(2)]
    ends = [
        run_rounds(lambda y: 0.5 * y, 3, np.ones((1, 2)), LocalMethod(0.2), rounds, noise=one.draw)[-1]
        for one, rounds in zip(noise, ([1] * 12, [6, 6]), strict=True)
    ]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-14)


@pytest.mark.parametrize(("rate", "momentum"), [(0.7, 0.9), (1.0, 0.5), (0.4, 0.0)])
def test_the_outer_updates_are_those_of_the_written_recursions(rate: float, momentum: float) -> None:
    """(x, b) of the docstring, run by hand on a direction of curvature h; averaging keeps 1 - s."""
    h, step, period = 0.3, 0.1, 5
    found = lockstep.converge(
        "outer-momentum",
        {"rate": rate, "momentum": momentum, "period": period, "step_size": step, "curvatures": (h,), "workers": 2},
    )
    done = 1 - (1 - step * h) ** period
    laws = {law.name: law.value for law in found.theory}
    assert laws[f"factor per round, averaging, curvature {h:g}"] == pytest.approx(1 - done)
    for name, nesterov in (("DiLoCo (Nesterov)", True), ("heavy ball", False)):
        x, buffer, sizes = 1.0, 0.0, []
        for _ in range(600):
            pulled = done * x
            buffer = momentum * buffer + pulled
            x -= rate * (pulled + momentum * buffer if nesterov else buffer)
            sizes.append(math.hypot(x, buffer))
            x, buffer = x / sizes[-1], buffer / sizes[-1]
        grown = math.exp(sum(map(math.log, sizes[200:])) / 400)
        assert laws[f"factor per round, {name}, curvature {h:g}"] == pytest.approx(grown, rel=3e-3)
    assert found.agrees
    assert len(found.checks) == len(found.theory) == 3


def test_some_of_the_workers_scatter_like_draws_without_replacement() -> None:
    """Means of all pairs of four optima, one by one; a round keeps (1 - a)^K of the distance."""
    from itertools import combinations

    from lockstep.learn.lab.experiments.local.client_sampling import Settings, _variance

    optima = np.array([-3.0, 0.5, 1.0, 1.5])
    means = [sum(pair) / 2 for pair in combinations(optima, 2)]
    kept = 0.9**3
    scattered = (1 - kept) ** 2 * float(np.mean(np.square(means))) / (1 - kept**2)
    assert _variance(optima, 2, Settings(period=3, step_size=0.1)) == pytest.approx(scattered)
    assert _variance(optima, 4, Settings(period=3, step_size=0.1)) == 0.0


@given(st.integers(1, 12), st.floats(0.01, 0.9), st.floats(0, 1), st.floats(0.1, 2), st.floats(0, 2))
def test_a_round_spreads_workers_by_the_recursion_of_its_moments(
    period: int, step: float, curvature: float, noise: float, optimum: float
) -> None:
    """Mean given the optimum and variance given it, step by step."""
    from lockstep.learn.lab.experiments.local.local_drift import Settings, _laws

    mean, variance = 0.0, 0.0
    for _ in range(period):
        mean = (1 - step * curvature) * mean + step * curvature
        variance = (1 - step * curvature) ** 2 * variance + (step * noise) ** 2
    settings = Settings(period=period, step_size=step, curvature=curvature, noise_std=noise, optimum_std=optimum)
    assert _laws(settings) == pytest.approx((variance, (mean * optimum) ** 2), rel=1e-9)


def test_workers_of_a_round_walk_as_written_out() -> None:
    """x <- x - a (h (x - b) - noise), with the same draws."""
    from lockstep.learn.lab.experiments.local.local_drift import Settings, _round

    settings = Settings(period=3, step_size=0.2, curvature=0.5, noise_std=1.5, optimum_std=0.7, trials=100)
    generator = np.random.default_rng(5)
    noise = SignNoise.of(1.5, (2, 100), generator)
    optima = 0.7 * generator.standard_normal((2, 100))
    x = np.zeros((2, 100))
    for _ in range(3):
        x = 0.9 * x + 0.1 * optima - 0.2 * noise.draw()
    np.testing.assert_allclose(_round(settings, 2, np.random.default_rng(5)), x, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("step", "period"), [(0.01, 2), (0.01, 5), (0.02, 3)])
def test_slow_rounds_with_client_sampling_run_until_they_settle(step: float, period: int) -> None:
    found = lockstep.converge(
        "client-sampling",
        {"step_size": step, "period": period, "workers": 6, "participants": (1, 3), "trials": 400},
    )
    assert found.agrees, found.verdict


@pytest.mark.parametrize("period", [1, 3])
@pytest.mark.parametrize(("rounds", "found"), [(1, 1), (599, 599), (600, 600), (601, 0)])
def test_gaps_are_measured_over_600_rounds(rounds: int, found: int, period: int) -> None:
    """Of two equal workers, from 1 to 0: the largest step, 0.49 times the curvature of 0.01, is the fastest."""
    curvature = 0.01
    workers = WorkerQuadratics(np.full((2, 1), curvature), np.zeros((2, 1)))
    losses = [curvature / 2 * (1 - 0.49 * curvature) ** (2 * period * passed) for passed in (rounds - 1, rounds)]
    gap = math.sqrt(losses[0] * losses[1])
    assert local_period._fewest_steps(workers, period, gap) == found * period


def test_the_proportional_line_ends_with_the_measured_steps() -> None:
    found = lockstep.converge("local-period")
    curves = {curve.label: curve for curve in found.curves}
    line, measured = curves["in proportion to K - 1"], curves["different data, tuned step"]
    assert line.y[-1] == measured.y[-1]
    np.testing.assert_allclose(line.y / line.y[-1], (line.x - 1) / (line.x[-1] - 1), rtol=1e-12)


def test_local_steps_of_equal_workers_shrink_like_plain_descent() -> None:
    """200 rounds of two steps: (1 - a)^400, where a delay of 14 grows."""
    settings = local_identity.Settings()
    step = 2 * local_identity._edge(settings)
    assert local_identity._like_a_delay(settings).got == pytest.approx((1 - step) ** 400, rel=1e-9, abs=0)
