"""Every experiment at the least of its settings, in a moment: it agrees, reports its parts, draws by the same rules.

One function for each group, so that a change of one experiment can be tried in seconds.
"""

from __future__ import annotations

import re
from dataclasses import fields

import numpy as np
import pytest

from converge.test_extremes import LEAST, smallest
from lockstep.converge import GROUPS, Curve, Findings, find_experiment

MORE: dict[str, dict[str, object]] = {
    "hogwild": {"touches": 200},
    "local-drift": {"curvature": 0.5, "optimum_std": 0.7},
    "gradient-variance": {"batch": 8, "large": 40},
    "data-parallel": {"batch": 16},
    "noise-scale": {"large_batch": 64},
    "norm-steps": {"matrix": (3, -4, 1, 2)},
}
"""What else these settings need, and what is 0 by default."""
REST = ("loss-scaling", "implicit-bias-epochs", "generalization-gap")
"""Experiments whose total counts one more part, which is done after the last report."""
SLOW = ("delay-stability", "staleness-weights", "tolerable-delay", "critical-batch-digits", "large-batch")

OVER_DECADES = {
    "bandwidth_Bps", "batch", "curvature", "density_frac", "epoch", "examples", "gradient_error", "keep_frac",
    "local_steps", "loss_scale", "p", "participants", "ranks", "sent_frac", "size_ratio_of_neighbours", "step_size",
    "step_size_times_smoothness", "target_loss", "terms", "workers",
}  # fmt: skip
"""Quantities along the bottom that are drawn by their powers; others are counted from 0."""
AROUND_ONE = {
    "downhill_frac", "end_of_the_rounds", "factor_per_round", "gain_frac", "least_value", "share_frac", "spread",
    "squared_distance_factor", "step_times_curvature_times_delay_plus_1", "steps_per_s",
}  # fmt: skip
"""Quantities along the side that are drawn as they are: shares, factors, values of either sign."""
OTHER_AXES = {
    ("compression-stability", "x"): False,
    ("generalization-gap", "x"): True,
    ("algorithmic-stability", "x"): True,
    ("staleness-weights", "y"): False,
    ("client-sampling", "y"): False,
    ("generalization-gap", "y"): False,
}
"""Early steps count most; distances that reach 0 and gaps of one size."""

MEASURED = re.compile(
    r"(^|, | )(simulated|measured|searched|counted|found|random displacements)$|^simulated at|^found by|^best constant"
)
FORMULA = re.compile(
    r"(^|, | )(law|bound|exact|target|rule)$|^(bound$|bound, |floor|enough|fixed delay|mean: |lasting: "
    r"|comes and goes: |pi / 2|no delay: |no weight|a\^2 K|in proportion|least possible|1 / \(1|hyperbola"
    r"|from the noise scale|untrained|fitted to the end|-\(alpha|l1,|linf,|theta_\d, a|Lyapunov|the same step without"
    r"|no noise: log)"
)


def given(name: str) -> dict[str, object]:
    """Whole numbers at their least unless their default is at most 20, three values of every list."""
    kind = find_experiment(name).settings
    usual = {one.name: one.default for one in fields(kind) if isinstance(one.default, int) and one.default <= 20}
    lists = {one.name: one.default[:3] for one in fields(kind) if isinstance(one.default, tuple)}
    return smallest(kind) | usual | lists | LEAST.get(name, {}) | MORE.get(name, {})


def check(name: str) -> None:
    """The laws of one run."""
    said: list[tuple[int, int]] = []
    found = find_experiment(name).answer(given(name), progress=lambda *words: said.append(words))
    assert found.agrees, found.verdict
    _reports_count_the_parts(name, said)
    _axes_are_those_of_their_quantities(name, found)
    for curve in found.curves:
        _a_formula_is_dashed_and_a_measurement_is_not(name, curve)
    _bands_are_those_of_the_checks(found)
    _numbers_said_twice_are_the_same(found)


def _reports_count_the_parts(name: str, said: list[tuple[int, int]]) -> None:
    """Before or after each of them."""
    assert said, "no report"
    first, total = said[0]
    part = max(first, 1)
    assert {one[1] for one in said} == {total}
    assert [done for done, _ in said] == list(range(first, total + min(first, 1) - (name in REST), part))
    assert part == (3 if name == "sgd-bound" else 1)


def _axes_are_those_of_their_quantities(name: str, found: Findings) -> None:
    picture = found.picture
    assert picture is not None
    assert picture.log_x == OTHER_AXES.get((name, "x"), picture.x in OVER_DECADES), picture
    assert picture.log_y == OTHER_AXES.get((name, "y"), picture.y not in AROUND_ONE), picture
    for curve in found.curves:
        assert not picture.log_x or (np.asarray(curve.x) > 0).all()


def _a_formula_is_dashed_and_a_measurement_is_not(name: str, curve: Curve) -> None:
    measured = MEASURED.search(curve.label) or (name == "large-batch" and curve.label != "untrained")
    assert curve.theory == bool(FORMULA.search(curve.label) and not measured), curve.label
    if curve.theory:
        assert not curve.marks or curve.label == "fewer bits, law"
        assert curve.half_ci95 is None
    elif MEASURED.search(curve.label):
        assert curve.marks or name == "async-staleness"


def _bands_are_those_of_the_checks(found: Findings) -> None:
    """95 % of a normal law lie within 1.96 standard errors."""
    errors = {one.got: one.standard_error for one in found.checks if one.standard_error > 0}
    for curve in found.curves:
        if curve.half_ci95 is not None:
            for y, half in zip(curve.y.tolist(), curve.half_ci95.tolist(), strict=True):
                assert half == pytest.approx(1.96 * errors[y]) if y in errors else half >= 0


def _numbers_said_twice_are_the_same(found: Findings) -> None:
    """A law in the list and the check of its name."""
    laws = {one.name: one.value for one in found.theory}
    for one in found.checks:
        if one.what in laws and not one.false_law:
            assert one.expected == pytest.approx(laws[one.what], rel=1e-12)


def named(group: str) -> pytest.MarkDecorator:
    """The quick experiments of a group."""
    names = next(one.experiments for one in GROUPS if one.name == group)
    return pytest.mark.parametrize("name", [name for name in names if name not in SLOW])


@named("descent")
def test_descent_agrees_and_draws_at_the_least_of_its_settings(name: str) -> None:
    check(name)


@named("staleness")
def test_staleness_agrees_and_draws_at_the_least_of_its_settings(name: str) -> None:
    check(name)


@named("local")
def test_local_steps_agree_and_draw_at_the_least_of_their_settings(name: str) -> None:
    check(name)


@named("compression")
def test_compression_agrees_and_draws_at_the_least_of_its_settings(name: str) -> None:
    check(name)


@named("precision")
def test_precision_agrees_and_draws_at_the_least_of_its_settings(name: str) -> None:
    check(name)


@named("batch")
def test_batches_agree_and_draw_at_the_least_of_their_settings(name: str) -> None:
    check(name)


@named("optimizers")
def test_optimizers_agree_and_draw_at_the_least_of_their_settings(name: str) -> None:
    check(name)


@named("determinism")
def test_determinism_agrees_and_draws_at_the_least_of_its_settings(name: str) -> None:
    check(name)


@named("time")
def test_times_agree_and_draw_at_the_least_of_their_settings(name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", SLOW)
def test_slow_ones_agree_and_draw_at_the_least_of_their_settings(name: str) -> None:
    check(name)
