"""Time to accuracy: the queue at the server by its closed forms, and choices that follow the cluster."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lockstep
from cli_runner import run
from lockstep.base.errors import install_line
from lockstep.learn.lab.descent.delayed import follow
from lockstep.learn.lab.descent.updates import asynchronous, served
from lockstep.learn.lab.experiments.local.local_period import best_period, penalty_frac, run_s
from lockstep.simulate.failures.stragglers.bounded import finish_s
from lockstep.simulate.play import Exponential, circulate, closed_loop

SMALL: dict[str, object] = {"steps": 160, "trials": 4}
CLUSTER = Path(__file__).parents[2] / "examples" / "my-cluster.yaml"


def times(workers: int, steps: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).exponential(1.0, (steps, workers)) + 1e-3


@given(st.integers(1, 5), st.integers(2, 20), st.integers(0, 100), st.sampled_from([None, 0, 1, 3]))
def test_a_server_with_zero_service_time_changes_nothing(
    workers: int, steps: int, seed: int, bound: int | None
) -> None:
    times_s = times(workers, steps, seed)
    plain, queued = asynchronous(times_s, bound), served(times_s, bound, service_s=0.0)
    assert queued.end_s == pytest.approx(plain.end_s, rel=1e-9)
    assert queued.worker.tolist() == plain.worker.tolist()
    assert queued.read.tolist() == plain.read.tolist()


@given(st.integers(1, 5), st.integers(2, 20), st.integers(0, 100), st.integers(0, 3))
def test_a_clock_gap_holds_at_the_server_too(workers: int, steps: int, seed: int, bound: int) -> None:
    times_s = times(workers, steps, seed)
    found = circulate(times_s, np.zeros(times_s.shape), bound=bound)
    assert found.end_s == pytest.approx(finish_s(times_s, bound), rel=1e-9)
    queued = circulate(times_s, times_s / 10, bound=bound)
    for turn in range(bound + 1, steps):
        assert (queued.left_s[turn] >= queued.end_s[turn - 1 - bound].max()).all()


@pytest.mark.parametrize("workers", [1, 4, 7, 8, 20])
def test_the_server_saturates_as_the_operational_laws_predict(workers: int) -> None:
    # x = 1, push and pull 0.25 each, service 0.2: n* = 1.5 / 0.2 = 7.5 workers.
    made = served(np.ones((200, workers)), service_s=0.2, push_s=0.25, pull_s=0.25)
    late = made.end_s > made.end_s[-1] / 2
    per_s = (late.sum() - 1) / float(np.ptp(made.end_s[late]))
    assert per_s == pytest.approx(min(workers / 1.5, 1 / 0.2), rel=0.02)
    assert made.settled().delay.mean() == pytest.approx(workers - 1, rel=0.02)


def test_random_times_at_the_server_follow_mean_value_analysis() -> None:
    # Reiser and Lavenberg 1980, exact for exponential times: R = s (1 + Q), X = k / (x + R), Q = X R.
    work_s, service_s, queued, per_s = 4.0, 1.0, 0.0, 0.0
    for workers in range(1, 6):
        stay_s = service_s * (1 + queued)
        per_s = workers / (work_s + stay_s)
        queued = per_s * stay_s
    rates = []
    for seed in range(12):
        run = closed_loop(Exponential(work_s), Exponential(service_s), 5, 400, seed=seed)
        ends = np.sort(run.end_s)[200:1600]
        rates.append((len(ends) - 1) / float(np.ptp(ends)))
    error = float(np.std(rates, ddof=1)) / len(rates) ** 0.5
    assert abs(float(np.mean(rates)) - per_s) < 4 * error < 0.1


@given(st.integers(1, 4), st.integers(0, 50))
def test_trials_with_separate_schedules_equal_single_trials(trials: int, seed: int) -> None:
    runs = [asynchronous(times(3, 12, 10 * seed + trial)) for trial in range(trials)]
    updates = min(len(one) for one in runs)
    start = np.random.default_rng(seed).standard_normal((trials, 2))

    def loss(x: np.ndarray) -> np.ndarray:
        return np.asarray((x**2).sum(-1))

    read = np.stack([one.read[:updates] for one in runs], axis=1)
    together = follow(read, lambda x: x, loss, start, 0.1)
    for trial in range(trials):
        alone = follow(read[:, trial], lambda x: x, loss, start[trial : trial + 1], 0.1)
        assert together.losses[:, trial].tolist() == alone.losses[:, 0].tolist()


def rows(**settings: object) -> dict[str, dict[str, Any]]:
    found = lockstep.converge("time-to-accuracy", SMALL | settings)
    assert found.agrees
    return {row["way"].partition(":")[0].partition(" ")[0]: dict(row) for row in found.rows}


def test_compression_adds_time_per_step_and_no_steps() -> None:
    quick, slow = (rows(compress_Bps=rate)["top-k"] for rate in (400e6 / 0.1, 400e6 / 0.6))
    assert slow["gradients"] == quick["gradients"]
    assert slow["time_s"] - quick["time_s"] == pytest.approx(0.5 * quick["gradients"])


def test_fewer_servers_slow_only_the_methods_that_use_them() -> None:
    one, many = rows(servers=1, workers=16), rows(servers=16, workers=16)
    assert one["asynchronous"]["time_s"] > 2 * many["asynchronous"]["time_s"]
    assert one["synchronous"] == many["synchronous"]
    assert one["top-k"] == many["top-k"]


def test_the_recommended_method_follows_the_link_with_a_reason() -> None:
    slow = lockstep.converge("time-to-accuracy", SMALL | {"bandwidth_Bps": "1Gbit/s", "servers": 1})
    assert slow.conclusion.startswith("local:8 is fastest")
    assert "the server is saturated" in slow.conclusion
    seconds = {row["way"]: row["time_s"] for row in slow.rows}
    assert seconds["synchronous"] > 2 * seconds["local:8"]
    fast = lockstep.converge("time-to-accuracy", SMALL | {"bandwidth_Bps": "400GB/s", "law": "constant:value=0.2s"})
    assert not fast.conclusion.startswith("local:8")
    assert "cannot be distinguished from it" in fast.conclusion or "slower" in fast.conclusion


@pytest.mark.parametrize("cluster", ["dgx-h100:2", str(CLUSTER)])
def test_a_race_accepts_a_cluster_name_or_file(cluster: str) -> None:
    words = ["--set", f"cluster={cluster}", "--set", "workers=16", "--set", "steps=100", "--set", "trials=4"]
    found = run("converge", "time-to-accuracy", *words, "--json").json()
    assert {row["way"] for row in found["rows"]} >= {"synchronous", "local:8", "asynchronous", "bounded:2"}
    assert {"gradients", "time_s", "sent_B", "ci95_gradients", "ci95_time_s", "ci95_sent_B"} < set(found["rows"][0])
    assert any("passes over the memory of h100" in line for line in found["assumptions"])


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("cluster=dgx-h10:2", "did you mean dgx-h100"),
        ("cluster=no.yaml", "no.yaml"),
        ("cluster=dgx-h100:1,workers=16", "use more nodes"),
        ("period=300", "at most steps = 240"),
        ("workers=1024,steps=20000", "use fewer"),
    ],
)
def test_invalid_race_settings_are_refused(setting: str, said: str) -> None:
    words = [word for pair in setting.split(",") for word in ("--set", pair)]
    assert said in run("converge", "time-to-accuracy", *words).refusal()


def test_the_worked_example_of_federated_averaging_takes_its_hours() -> None:
    # Computing 0.5 s, exchange 5 s; hours from the iterations listed, in exact fractions.
    table = {1: (100, 152 + 7 / 9), 5: (120, 50.0), 10: (150, 41 + 2 / 3), 20: (220, 45 + 5 / 6), 50: (400, 66 + 2 / 3)}
    for period, (thousands, hours) in table.items():
        assert run_s(thousands * 1e3, period, 0.5, 5.0) / 3600 == pytest.approx(hours)
    assert pytest.approx(138 + 8 / 9) == 100e3 * 5.0 / 3600
    penalties = [penalty_frac(thousands, 100, period) for period, (thousands, _) in table.items() if period > 1]
    assert penalties == pytest.approx([0.05, 0.5 / 9, 1.2 / 19, 3 / 49])
    assert [round(best_period(c, 0.5, 5.0)) for c in penalties] == [14, 13, 12, 12]


def test_time_over_local_steps_has_a_minimum() -> None:
    # 0.05 s a step, 0.1 s an exchange: 4 local steps are best, and 8 take half as many steps again.
    steps = {1: 1000, 2: 1080, 4: 1200, 8: 1500, 16: 2000, 32: 3500}
    seconds = [run_s(count, period, 0.05, 0.1) for period, count in steps.items()]
    assert seconds == pytest.approx([150, 108, 90, 93.75, 112.5, 185.9375])
    assert best_period(0.07, 0.05, 0.1) == pytest.approx(5.155, abs=1e-3)


def test_a_race_without_simpy_states_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simpy", None)
    assert install_line("queues") in run("converge", "time-to-accuracy", "--set", "trials=2").refusal()
