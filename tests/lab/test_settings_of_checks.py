"""Every check knows the settings it is for: elsewhere it is left out and says so; examples stand below the others."""

from __future__ import annotations

import numpy as np
import pytest

import lockstep
from cli_runner import run
from effort import share
from lockstep.learn.lab import ALWAYS, Check, Findings, example, find_experiment, when
from lockstep.learn.lab.experiments.batch import algorithmic_stability, generalization_gap
from lockstep.learn.lab.experiments.compression import compression_noise
from lockstep.learn.lab.findings import CREDIBLE_ERRORS, absent, credible_errors, tells, verdict
from lockstep.show.views.parts.findings_table import render_findings
from lockstep.show.views.parts.terminal import console


def test_a_check_requires_its_applicable_settings() -> None:
    with pytest.raises(TypeError, match="holds"):
        Check("two and two", 4.0, 4.0)  # type: ignore[call-arg]


def test_inapplicable_checks_are_listed_separately_and_examples_last(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Check("the printed one", 5.0, 4.0, false_law=True, holds=example("a = 0.08"))
    law = Check("the law", 4.0, 4.0, holds=ALWAYS)
    wrong = Check("the law of delays", 4.0, 5.0, holds=when(False, "a delay of 2 or more"))
    nothing = absent("no number", "3 periods or more")
    found = Findings((printed, wrong, law, nothing)).sorted_out()
    assert found.checks == (law, printed)
    assert [one.what for one in found.left_out] == ["the law of delays", "no number"]
    assert found.agrees
    said = found.to_dict()
    assert said["left_out"] == [
        {"check": "the law of delays", "holds_for": "a delay of 2 or more"},
        {"check": "no number", "holds_for": "3 periods or more"},
    ]
    assert [(one["example"], one["holds_for"]) for one in said["checks"]] == [
        (False, "all settings"),
        (True, "a = 0.08"),
    ]
    render_findings(found, console())
    shown = capsys.readouterr().out
    order = [
        shown.index(words)
        for words in ("the law", "the printed one (a = 0.08)", "Not applicable to these", "a delay of 2")
    ]
    assert order == sorted(order)


def test_combined_conditions_must_both_hold() -> None:
    both = when(True, "a delay") & when(False, "momentum")
    assert (both.here, both.words) == (False, "a delay; momentum")
    assert (when(True, "a delay") & when(True, "momentum")).here


@pytest.mark.parametrize(
    ("expected", "got", "shown"),
    [
        (-0.6, -0.599999921, ("-0.6", "-0.5999999")),
        (1.0, 1.0 + 2**-52, ("1", "1.0000000000000002")),
        (3.0, 5.0, ("3", "5")),
        (0.1234567, 0.1234568, ("0.1234567", "0.1234568")),
    ],
)
def test_a_disagreement_is_printed_with_enough_digits(expected: float, got: float, shown: tuple[str, str]) -> None:
    wrong = Check("the end", expected, got, holds=ALWAYS)
    assert wrong.printed(4) == shown
    assert f"expected {shown[0]}, got {shown[1]}" in verdict([wrong])
    assert wrong.printed(4)[0] != wrong.printed(4)[1]


def test_an_agreement_is_printed_with_few_digits() -> None:
    assert Check("the end", -0.6, -0.599999921, tolerance=1e-6, holds=ALWAYS).printed(4) == ("-0.6", "-0.6")


def test_the_tolerance_of_few_runs_follows_students_t() -> None:
    from scipy import stats

    beyond = stats.norm.sf(CREDIBLE_ERRORS)
    for runs in (2, 3, 20, 100, 1000):
        assert credible_errors(runs) == pytest.approx(stats.t.isf(beyond, runs - 1), rel=0.02)
        assert credible_errors(runs, 2.0) == pytest.approx(stats.t.isf(stats.norm.sf(2), runs - 1), rel=0.005)
    assert credible_errors() == CREDIBLE_ERRORS
    assert credible_errors(normal=3.0) == 3.0


def test_a_false_law_is_omitted_where_runs_cannot_refute_it() -> None:
    assert tells(1 / 3, 1 / 12, 0.01).here
    assert not tells(1 / 3, 1 / 12, 0.1).here
    assert not tells(0.5, 0.5).here
    assert not tells(1.0, 1.2, tolerance=0.3).here


@pytest.mark.parametrize(
    ("experiment", "settings"),
    share(
        [
            ("time-to-accuracy", {"period": 2, "trials": 8}),
            ("error-feedback", {"step_size": 0.05, "steps": 500, "repetitions": 500}),
            ("error-feedback", {"step_size": 0.0025, "steps": 500, "repetitions": 500}),
            ("local-period", {"curvatures": (1, 1), "optima": (0.1, 0.1)}),
            ("local-period", {"curvatures": (0.25, 1), "compute_s": 2}),
            ("local-bias", {"curvatures": (2, 8), "periods": (1, 100)}),
            ("local-drift", {"workers": (2, 4), "trials": 500}),
            ("compression-stability", {"keep_frac": 0.6}),
            ("compression-stability", {"keep_frac": 1.0}),
            ("varying-delay", {"delays": (20,), "steps": 3000}),
            ("sgd-bound", {"batches": (64, 65), "trials": 100}),
            ("overflow", {"ranks": 2}),
            ("summation-error", {"terms": (2,), "orders": 5}),
            ("trajectory-divergence", {"convex_step_size": 1e-6, "steps": 50, "ranks": (2,)}),
            ("staleness-bounds", {"workers": 2, "bounds": (50,), "steps": 1000}),
            ("aggregation-error", {"steps": (30, 31), "step_size": 1e-3, "repetitions": 100}),
            ("loss-scaling", {"curvature": 1e-45, "steps": 200}),
            ("loss-scaling", {"start_power": 0, "steps": 200}),
            ("outer-momentum", {"step_size": 0.05, "period": 10}),
            ("tolerable-delay", {"beyond": 12, "moments": (0, 1600)}),
            ("compression-noise", {"step_sizes": (1.9, 1.999), "keep_frac": 1.0, "steps": 50}),
            ("compression-noise", {"step_sizes": (0.0245,), "elems": 80, "keep_frac": 0.0125, "steps": 100}),
            ("compression-noise", {"step_sizes": (1e-60,), "steps": 50}),
            ("error-feedback", {"steps": 500, "repetitions": 100, "step_size": 1e-60}),
            ("index-bits", {"elems": 10_000, "keep_fracs": (0.5, 0.7, 1 - 2**-53)}),
            ("critical-batch", {"noise": 1e-60, "axes": 2, "trials": 20}),
            ("critical-batch", {"noise": 1e-4, "condition": 10, "trials": 20}),
            ("critical-batch", {"target_frac": 0.9, "axes": 2, "trials": 20}),
            ("implicit-bias", {"momentum": 0.98, "steps": 100}),
            ("time-to-accuracy", {"steps": 20, "trials": 2, "bandwidth_Bps": 1e-60}),
            ("noise-scale", {"noise": 1e-60, "repetitions": 100}),
            ("layerwise-compression", {"layers": 200, "layer_elems": 100, "ratios": (1, 100), "repetitions": 4}),
        ],
        2,
    ),
)
def test_settings_far_from_the_default_disagree_with_nothing(experiment: str, settings: dict[str, object]) -> None:
    found = lockstep.converge(experiment, settings)
    assert found.agrees, found.verdict
    names = {one.what for one in found.checks}
    assert not names & {one.what for one in found.left_out}
    assert all(one.holds.words for one in found.left_out)


def test_inapplicable_checks_are_printed_with_their_condition() -> None:
    shown = run("converge", "local-period", "--set=curvatures=1,1", "--set=optima=0.1,0.1")
    assert shown.code == 0
    flat = " ".join(shown.out.split())
    assert "Not applicable to these settings" in flat
    assert "slope of steps over K - 1" in flat[flat.index("Not applicable to these settings") :]


def test_the_best_period_of_the_verdict_is_the_fastest_of_the_table() -> None:
    for settings in ({"compute_s": 0.05, "exchange_s": 0.1}, {}, {"gap": 1e-4, "exchange_s": 500}):
        found = lockstep.converge("local-period", settings)
        quickest = min(found.rows, key=lambda row: row["time_s"])
        assert found.conclusion.startswith(f"of these, K = {quickest['local_steps']} is fastest")


def test_a_limit_is_not_checked_before_the_rounds_converge(monkeypatch: pytest.MonkeyPatch) -> None:
    from lockstep.learn.lab.experiments.local import local_bias

    monkeypatch.setattr(local_bias, "MOST_STEPS", 100)
    found = find_experiment("local-bias").answer({"periods": (1, 50)})
    assert {"limit of local SGD, K = 1", "limit of SCAFFOLD, K = 50"} <= {one.what for one in found.left_out}
    assert found.agrees


def test_every_row_about_an_example_names_its_numbers() -> None:
    for name in ("async-momentum", "index-bits", "stale-descent"):
        checks = find_experiment(name).answer({}).checks
        examples = [one.holds.example for one in checks]
        assert any(examples)
        assert examples == sorted(examples)


def test_noise_from_zero_has_the_moments_of_its_recursion() -> None:
    """Step by step, for a step that adds to what is kept, one that forgets, and one that keeps all."""
    for kept in (0.9, 0.0, 1.0):
        moment, late = 0.0, []
        for at in range(51):
            moment = kept * moment + 0.5
            late += [moment] * (at >= 25)
        assert compression_noise._second_half(kept, 0.5, 51) == pytest.approx(sum(late) / len(late), rel=1e-12)


def test_growth_is_not_checked_where_no_run_sees_the_other_example_early() -> None:
    """The ratio of the distances does not exist there."""
    settings = algorithmic_stability.Settings(examples=500, batches=(1,), steps=50, trials=100)
    distance = np.zeros((100, 50))
    distance[:, 20:] = 1e-3
    end = np.zeros((100, 1))
    pair = algorithmic_stability.Pair(distance, end, end)
    said = Findings(tuple(algorithmic_stability._refuted(settings, {(0.0, 1): pair, (0.0, 500): pair}, 1.0)))
    assert ["1 / sqrt(B T)" in one.what for one in said.sorted_out().left_out] == [True]


def test_the_spread_of_a_fitted_gap_equals_that_of_its_runs() -> None:
    """Few directions and many, beside examples with moments enough that the runs know their own spread."""
    for d, n in ((3, 30), (20, 50)):
        gaps = generalization_gap._fitted(d, n, 4000, np.random.default_rng(7))
        assert generalization_gap.fitted_spread(d, n) == pytest.approx(float(gaps.std()), rel=0.08)


def test_a_fitted_gap_without_variance_is_omitted_and_few_data_sets_do_not_refute_it() -> None:
    """The largest gaps are rare: runs that have not met one see a mean and a spread that are both too small."""
    for n, here, seeds in ((12, False, 1), (13, False, 1), (14, True, 150)):
        seen = [
            generalization_gap._fit(10, n, generalization_gap._fitted(10, n, 50, np.random.default_rng(seed)))
            for seed in range(seeds)
        ]
        assert {one.holds.here for one in seen} == {here}
        assert not here or all(one.ok for one in seen)


def test_gaps_that_the_data_sets_do_not_show_are_not_compared() -> None:
    """Of 5000 examples, 50 data sets show a gap that is mostly the noise of its measurement."""
    noise = np.random.default_rng(3).normal(scale=0.01, size=(2, 50, 4))
    unseen = generalization_gap._alike({4: 0.002 + noise[0], 5000: 0.002 + noise[1]})
    assert [one.holds.here for one in unseen] == [False]
    (seen,) = generalization_gap._alike({4: 0.2 + noise[0], 5000: 0.2 + noise[1]})
    assert seen.holds.here
    assert seen.ok
    (other,) = generalization_gap._alike({4: 0.3 + noise[0], 5000: 0.2 + noise[1]})
    assert other.holds.here
    assert not other.ok
