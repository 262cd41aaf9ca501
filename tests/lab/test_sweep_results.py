"""Results of a sweep: those of the runs made alone, their means, the same from every engine, a picture per unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import lockstep
from cli_runner import run
from lockstep.learn.lab import Curve, Findings, Picture, find_experiment
from lockstep.learn.lab.sweep import Sweep, read_grid
from lockstep.learn.lab.sweep.results import Results, identified, results_of
from lockstep.learn.lab.sweep.summary import joined
from lockstep.learn.lab.sweep.trial import Outcome, Trial, run_trial
from lockstep.show.verbs.converge import sweep
from lockstep.show.views.parts.sweep_panels import panels, swept_numbers, unit_of

ROWS = ("gradient-variance", {"batch": "32,64"}, {"trials": 200})
CURVES = ("delay-floor", {"noise_std": "0.5,1"}, {"trials": 200, "delays": (0, 2)})
TIMES = ("time-to-accuracy", {"bandwidth_Bps": "1Gbit/s..4Gbit/sx2"}, {"trials": 4, "steps": 120})


def pooled_results(several: Sequence[Results]) -> Results:
    """The results of one point from those of its seeds."""
    return joined((), [Outcome((), one) for one in several]).results


@cache
def found_of(question: str) -> Sweep:
    """The sweep of one of these, made once."""
    return sweep(*next(one for one in (ROWS, CURVES, TIMES) if one[0] == question))


@pytest.fixture
def times() -> Sweep:
    return found_of(TIMES[0])


def test_one_seed_gives_the_results_of_the_run_alone() -> None:
    for experiment, swept, settings in (ROWS, CURVES):
        found = sweep(experiment, swept, settings, seed=3)
        for point in found.points:
            alone = lockstep.converge(experiment, settings | dict(point.swept), seed=3)
            assert list(point.results.rows) == [dict(row) for row in alone.rows]
            assert list(point.results.theory) == [law.to_dict() for law in alone.theory]
            assert [row["label"] for row in point.results.ends] == [curve.label for curve in alone.curves]
            assert alone.picture is not None
            for row, curve in zip(point.results.ends, alone.curves, strict=True):
                assert (row[alone.picture.x], row[alone.picture.y]) == (curve.x[-1], curve.y[-1])


def test_the_mean_over_seeds_is_that_of_single_runs() -> None:
    experiment, swept, settings = ROWS
    found = sweep(experiment, swept, settings, seeds=4)
    alone = [lockstep.converge(experiment, {**settings, "batch": 64}, seed=seed) for seed in range(4)]
    for place, row in enumerate(found.points[1].results.rows):
        values = [one.rows[place]["variance"] for one in alone]
        assert row["variance"] == pytest.approx(np.mean(values), rel=1e-14)
        low, high = row["ci95_variance"]
        assert high - low == pytest.approx(3.182446 * float(np.std(values, ddof=1)), rel=1e-2)
        assert high + low == pytest.approx(2 * row["variance"])
        assert row["workers"] == alone[0].rows[place]["workers"]
        assert "ci95_workers" not in row


def test_ends_of_curves_are_means_too() -> None:
    experiment, swept, settings = CURVES
    found = sweep(experiment, swept, settings, seeds=3)
    alone = [lockstep.converge(experiment, {**settings, "noise_std": 1}, seed=seed) for seed in range(3)]
    row = found.points[1].results.ends[0]
    assert row["squared_distance"] == pytest.approx(np.mean([one.curves[0].y[-1] for one in alone]), rel=1e-14)
    assert row["ci95_squared_distance"][0] < row["squared_distance"] < row["ci95_squared_distance"][1]
    assert row["delay_steps"] == 2


def test_seeds_without_a_value_are_counted_not_averaged() -> None:
    rows = [{"rule": "linear", "variance": 1.0, "step": None}, {"rule": "linear", "variance": math.nan, "step": 7}]
    row = pooled_results([results_of(Findings((), rows=(row,))) for row in rows]).rows[0]
    assert row == {"rule": "linear", "variance": 1.0, "seeds_variance": 1, "step": 7, "seeds_step": 1}


def test_differing_labels_are_counted_and_rows_missing_for_some_seeds_are_marked() -> None:
    first = Findings((), rows=({"way": "a", "loss": 1, "end": "lost"}, {"way": "b", "loss": 1, "end": "right"}))
    second = Findings((), rows=({"way": "a", "loss": 1, "end": "right"},))
    kept = pooled_results([results_of(first), results_of(second)]).rows
    assert kept[0] == {"way": "a", "loss": 1, "end": "lost (1 of 2), right (1 of 2)"}
    assert kept[1] == {"way": "b", "loss": 1, "end": "right", "seeds": 1}


def test_a_curve_that_diverged_has_no_end_value() -> None:
    picture, steps = Picture("step", "loss"), np.arange(4.0)
    wild = Curve.until_divergence("descent", steps, np.array([1.0, 10.0, np.inf, np.inf]))
    calm = Curve("descent", steps, np.array([1.0, 0.5, 0.2, 0.1]))
    results = [results_of(Findings((), curves=(curve,), picture=picture)) for curve in (wild, calm)]
    assert results[0].ends[0] == {
        "label": "descent", "theory": False, "step": None, "loss": None, "diverged_at_step": 2.0
    }  # fmt: skip
    pooled = pooled_results(results).ends[0]
    assert (pooled["loss"], pooled["seeds_loss"], pooled["seeds_diverged_at_step"]) == (0.1, 1, 1)


def test_the_same_row_of_two_runs_has_the_same_identity() -> None:
    rows = [{"way": "ring", "ranks": 2}, {"way": "tree", "ranks": 2}, {"way": "ring", "ranks": 4}]
    assert list(identified(rows)) == [(("ring",), 0), (("tree",), 0), (("ring",), 1)]


def test_results_are_plain_data() -> None:
    """Nothing of numpy, so that JSON and pickles are the same from every engine."""
    for experiment in ("gradient-variance", "norm-steps", "noise-scale"):
        results = run_trial(Trial(experiment, (), 0))["results"]
        for row in (*results["rows"], *results["ends"], *results["theory"]):
            for value in row.values():
                assert type(value) in (int, float, str, bool, list, type(None)), (experiment, row)


def test_engines_give_the_same_results_of_one_seed() -> None:
    """Of several: `test_every_engine_prints_the_same_bytes`."""
    words = ("converge", "noise-scale", "--set", "repetitions=50", "--sweep", "condition=1,10", "--seeds", "1")
    assert run(*words, "--json", "--engine", "processes:2").out == run(*words, "--json").out


def test_values_take_ranges_with_the_units_of_their_setting() -> None:
    grid = read_grid(find_experiment("time-to-accuracy"), {}, {"latency_s": "1us..4usx2,1ms"}, 1)
    assert [dict(swept)["latency_s"] for swept, _ in grid] == ["1us", "2us", "4us", "1ms"]
    grid = read_grid(find_experiment("noise-scale"), {}, {"condition": "1..3", "noise": (0.5, 2)}, 1)
    assert [dict(swept) for swept, _ in grid][:3] == [
        {"condition": "1", "noise": 0.5}, {"condition": "1", "noise": 2}, {"condition": "2", "noise": 0.5}
    ]  # fmt: skip


def test_results_are_printed_before_checks() -> None:
    shown = run("converge", "gradient-variance", "--sweep", "batch=32,64", "--set", "trials=200", "--seeds", "2").out
    order = [shown.index(words) for words in ("Results", "Theory\n", "Points", "Theory and means over seeds")]
    assert order == sorted(order)
    assert "variance law" in shown
    curves = run("converge", "delay-floor", "--sweep", "noise_std=0.5,1", "--set", "trials=200").out
    assert "Ends of the curves" in curves
    assert "squared distance" in curves


def test_row_labels_are_never_truncated(times: Sweep) -> None:
    words = [*(f"--set={name}={value}" for name, value in TIMES[2].items()), "--sweep=bandwidth_Bps=1Gbit/s,4Gbit/s"]
    shown = run("converge", TIMES[0], *words).out
    assert "asynchronous" in shown
    assert "…" not in shown
    assert "more columns" in shown


@pytest.mark.parametrize("question", [ROWS[0], CURVES[0], TIMES[0]])
def test_a_panel_has_one_unit(question: str) -> None:
    found = found_of(question)
    made = panels(found)
    assert len({panel.unit for panel in made}) == len(made)
    columns = {key for point in found.points for row in (*point.results.rows, *point.results.ends) for key in row}
    for panel in made:
        assert panel.key in columns
        assert unit_of(panel.key) == panel.unit
        assert all(len(line.points) == len(found.points) for line in panel.lines)


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("variance", "variance_law", True),
        ("sending_frac", "waiting_frac", True),
        ("loss", "accuracy_frac", False),
        ("time_s", "sent_B", False),
        ("gradients_per_s", "time_s", False),
        ("gradients_per_s", "steps_per_s", False),
        ("error_in_unit_roundoffs", "law_in_unit_roundoffs", True),
        ("steps", "examples", False),
    ],
)
def test_only_columns_of_one_unit_share_an_axis(one: str, other: str, together: bool) -> None:
    assert (unit_of(one) == unit_of(other)) is together


def test_lines_are_the_results_over_the_swept_setting(times: Sweep) -> None:
    assert swept_numbers(times) == [125e6, 250e6, 500e6]
    panel = next(panel for panel in panels(times) if panel.key == "time_s")
    for line in panel.lines:
        rows = [next(row for row in point.results.rows if row["way"] == line.label) for point in times.points]
        assert [point[1] for point in line.points] == [row["time_s"] for row in rows]


def test_laws_are_drawn_beside_their_results() -> None:
    panel = panels(found_of(ROWS[0]))[0]
    laws = [line for line in panel.lines if line.law]
    assert {line.place for line in laws} == {line.place for line in panel.lines if not line.law}
    assert panel.law_word == "law"
    floors = panels(found_of(CURVES[0]))[0]
    assert [line.label for line in floors.lines if not line.law] == ["simulated"]
    assert len([line for line in floors.lines if line.law]) == 2


def test_a_picture_has_a_panel_of_axes_for_each_unit(times: Sweep) -> None:
    from lockstep.show.views.parts.sweep_plot import plot_sweep

    names = [axes.get_ylabel() for axes in plot_sweep(times).axes]
    assert len(names) == len(set(names)) == 4
    assert "value" not in names


@pytest.mark.parametrize(
    "words", [("--sweep=condition=1,10", "--sweep=noise=1,2"), ("--seeds=3",), ("--sweep=condition=4",)]
)
def test_undrawable_sweeps_are_refused_before_they_run(words: tuple[str, ...], tmp_path: Path) -> None:
    """Before even the engine is looked for."""
    said = run(
        "converge",
        "noise-scale",
        *words,
        "--set=repetitions=100000",
        "--engine=nowhere",
        f"--plot={tmp_path / 'a.png'}",
    )
    assert "needs one --sweep" in said.refusal()
