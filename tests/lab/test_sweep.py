"""Sweeps: grid and seeds, means and intervals, the same bytes from every engine, refusals before anything runs."""

from __future__ import annotations

import math
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lockstep
from cli_runner import run
from lockstep.base.engines import Serial
from lockstep.base.engines.cluster import local_cluster
from lockstep.base.errors import BadInput
from lockstep.learn.lab import ALWAYS, Check, find_experiment
from lockstep.learn.lab.sweep import Outcome, read_grid
from lockstep.learn.lab.sweep import sweep as run_sweep
from lockstep.learn.lab.sweep.summary import joined
from lockstep.show.verbs.converge import sweep

QUICK = ("converge", "noise-scale", "--set", "repetitions=100", "--sweep", "condition=1,10", "--seeds", "3")


def test_sweep_points_cover_every_combination_with_the_last_key_fastest() -> None:
    grid = read_grid(find_experiment("noise-scale"), {"noise": 2}, {"axes": "4,8", "condition": (1, 10)}, 1)
    assert [dict(swept) for swept, _ in grid] == [
        {"axes": axes, "condition": condition} for axes in ("4", "8") for condition in (1, 10)
    ]
    assert all(dict(every)["noise"] == 2 for _, every in grid)


def test_every_run_of_a_sweep_can_be_repeated_alone() -> None:
    found = sweep("noise-scale", {"condition": "10,20"}, {"repetitions": 100}, seeds=4, seed=5)
    alone = [lockstep.converge("noise-scale", {"repetitions": 100, "condition": 20}, seed=seed) for seed in range(5, 9)]
    for place, pooled in enumerate(found.points[1].checks):
        assert pooled.check.got == pytest.approx(np.mean([one.checks[place].got for one in alone]), rel=1e-14)
        assert pooled.seeds == 4
        assert pooled.agreeing == sum(one.checks[place].ok for one in alone)
    assert found.points[1].agreeing == sum(one.agrees for one in alone)
    assert found.runs == 8


def test_standard_errors_of_the_mean_and_intervals_between_seeds() -> None:
    values = [1.0, 1.2, 0.7, 1.1]
    point = joined(
        (), [Outcome((Check("x", 1.0, value, standard_error=0.2, tolerance=0.01, holds=ALWAYS),)) for value in values]
    )
    check, (low, high) = point.checks[0].check, point.checks[0].ci95
    assert check.got == pytest.approx(1.0)
    assert check.standard_error == pytest.approx(0.1)
    assert check.tolerance == pytest.approx(0.01)
    half = 3.182446 * float(np.std(values, ddof=1)) / 2
    assert (low, high) == (pytest.approx(1 - half, rel=1e-3), pytest.approx(1 + half, rel=1e-3))


def test_many_seeds_detect_what_one_cannot() -> None:
    """A bias of one standard error passes in every run and fails in the mean of a hundred."""
    outcomes = [
        Outcome((Check("biased", 0.0, 1.0 + math.sin(seed), standard_error=1.0, holds=ALWAYS),)) for seed in range(100)
    ]
    point = joined((), outcomes)
    assert point.agreeing == 100
    assert not point.agrees


def test_intervals_of_the_mean_cover_the_truth() -> None:
    """P16, at 5 seeds a point."""
    rng, covered = np.random.default_rng(0), 0
    for _ in range(2000):
        outcomes = [
            Outcome((Check("x", 0.0, float(value), standard_error=1.0, holds=ALWAYS),)) for value in rng.normal(size=5)
        ]
        low, high = joined((), outcomes).checks[0].ci95
        covered += low <= 0 <= high
    assert 0.93 < covered / 2000 < 0.97


def test_every_engine_prints_the_same_bytes() -> None:
    serial = run(*QUICK, "--json")
    assert serial.code == 0
    assert serial.json()["runs"] == 6
    assert run(*QUICK, "--json", "--engine", "processes:2").out == serial.out
    with local_cluster(2) as cluster:
        assert run(*QUICK, "--json", "--engine", f"dask:{cluster.scheduler_address}").out == serial.out


def test_a_local_dask_cluster_lives_as_long_as_the_sweep() -> None:
    assert run(*QUICK, "--json", "--engine", "dask:1").json()["runs"] == 6


def test_the_terminal_shows_points_means_and_intervals(tmp_path: Path) -> None:
    picture = tmp_path / "sweep.svg"
    shown = run(*QUICK, "--plot", str(picture)).out
    assert "6 runs: 2 points, 3 seeds each, from 0 on" in shown
    assert "95 % interval" in shown
    assert picture.stat().st_size > 1000
    assert "1 point, 2 seeds each" in run("converge", "norm-steps", "--seeds", "2").out


def test_keys_of_a_sweep() -> None:
    answer = run(*QUICK, "--json").json()
    keys = {
        "experiment",
        "question",
        "verdict",
        "agrees",
        "runs",
        "complete",
        "stopped",
        "left_out",
        "settings",
        "seed",
        "rows",
        "source",
    }
    assert keys == set(answer)
    row = answer["rows"][1]
    assert row["condition"] == "10"
    assert {"seeds", "agreeing", "agrees", "results", "checks"} <= set(row)
    assert {"rows", "ends", "theory"} == set(row["results"])
    assert {"check", "expected", "got", "standard_error", "ci95", "seeds", "agreeing", "ok"} <= set(row["checks"][0])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--sweep", "condition=1,x"), "--set condition"),
        (("--sweep", "condition=1,,2"), "nothing stands before, after or between"),
        (("--sweep", "condition=8..2"), "--sweep condition"),
        (("--sweep", "condition"), "--sweep"),
        (("--sweep", "conditon=1,2"), "did you mean condition"),
        (("--sweep", "noise=1,2", "--set", "noise=1"), "both fixed by --set and swept"),
        (("--sweep", "noise=1,2", "--seeds", "1000000"), "at most 1,000,000"),
        (("--seeds", "0"), "--seeds"),
        (("--engine", "threads"), "unknown engine"),
        (("--sweep", "small_batch=4,64", "--engine", "processes:2"), "in the run noise-scale small_batch=64 seed=0"),
    ],
)
def test_invalid_sweeps_are_refused_at_their_flag(words: tuple[str, ...], said: str) -> None:
    assert said in run("converge", "noise-scale", *words).refusal()


def test_a_sweep_without_an_experiment_is_refused() -> None:
    assert "need an experiment" in run("converge", "--seeds", "3").refusal()


def test_a_disagreeing_sweep_names_its_points(monkeypatch: pytest.MonkeyPatch) -> None:
    from lockstep.learn.lab.experiments.batch import noise_scale

    wrong = noise_scale.law.best_rate_frac
    monkeypatch.setattr(noise_scale.law, "best_rate_frac", lambda batch, scale: 0.9 * wrong(batch, scale))
    session = run("converge", "noise-scale", "--sweep", "condition=10,20", "--seeds", "3")
    assert session.code == 1
    assert "at condition = 10" in session.out.replace("\n", " ")


def test_a_picture_needs_one_key_with_numbers(tmp_path: Path) -> None:
    said = run("converge", "norm-steps", "--seeds", "2", "--plot", str(tmp_path / "a.png")).refusal()
    assert "needs one --sweep with several numbers" in said
    with pytest.raises(BadInput, match="--sweep"):
        sweep("noise-scale", {"axes": []})


def test_a_sweep_that_would_take_too_long_is_refused_with_its_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    from lockstep.base.engines import forecast

    monkeypatch.setattr(forecast, "MEASURED_S", 0.0)
    said = run("converge", "communication-bound", "--seeds", "100000", "--limit", "1s").refusal()
    assert said.startswith("--limit: 100,000 questions would take about ")
    assert "in the first 3; the limit is 1 s" in said


class _Stopped(Serial):
    """Ctrl-C during the fourth task."""

    def run(self, function: Any, batches: Any) -> Any:
        yield from islice(super().run(function, batches), 3)
        raise KeyboardInterrupt


def test_ctrl_c_keeps_finished_runs() -> None:
    found = run_sweep("communication-bound", {}, {"elems": (8, 16, 32)}, _Stopped(), seeds=2)
    assert (found.runs, found.asked, found.complete) == (3, 6, False)
    assert [(dict(point.swept)["elems"], point.seeds) for point in found.points] == [(8, 2), (16, 1)]
    assert found.to_dict()["complete"] is False
    whole = run_sweep("communication-bound", {}, {"elems": (8, 16)}, Serial(), seeds=2)
    assert whole.complete
    assert whole.points[0] == found.points[0]


def test_ctrl_c_before_the_first_run_is_raised() -> None:
    class AtOnce(Serial):
        def run(self, function: Any, batches: Any) -> Any:
            raise KeyboardInterrupt
            yield

    with pytest.raises(KeyboardInterrupt):
        run_sweep("communication-bound", {}, {}, AtOnce())
