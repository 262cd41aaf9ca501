"""Experiments at the least of their settings, in a moment: they agree, report their parts, draw by the same rules."""

from __future__ import annotations

import math
import re
from dataclasses import fields

import numpy as np
import pytest

from effort import share
from lab.round_tolerances import tolerances_are_round
from lab.test_extremes import LEAST, smallest
from lockstep.learn.lab import EXPERIMENTS, Curve, Findings, find_experiment

MORE: dict[str, dict[str, object]] = {
    "hogwild": {"touches": 200},
    "local-drift": {"curvature": 0.5, "optimum_std": 0.7},
    "gradient-variance": {"batch": 8, "large": 40},
    "data-parallel": {"batch": 16},
    "noise-scale": {"large_batch": 64},
    "algorithmic-stability": {"batches": (1, 20, 1)},
    "norm-steps": {"gradient": (3, -4, 1), "matrix": (3, -4, 1, 2)},
}
"""What else these settings need, and what is 0 by default."""

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

SAID: dict[str, float] = {
    "noise term L s^2 / (2 B T), after 400 steps": 1 / 2 / 400,
    "a s^2 / (2 mu) bounds the floor, L = mu = 100, a = 0.01": 0.01 / 2 / 100,
    "noise lowers the loss: change of f by a step from the optimum, a = 1/2": (0.5**2 - 1) / 2,
    "the gap falls like 2 L R^2 / T at any step, a = 0.01 / L": 2 / 10,
    "a = 2 / L converges": 2 / 100,
    "uphill pairs inside the radius": 0,
    "outside the radius the stale gradient points uphill": 0,
    "inside the radius the loss falls, x^2 / 2 from 1 with a = 2.5": 1 / 2,
    "largest stable step, delay 0, momentum 0": 2,
    "largest stable a lambda tau over 1 - beta, maximum": math.pi / 2,
    "stability limit at 1 / delay, delay 2": 1 / 2,
    "a = 1/L converges with delay 2": 1,
    "runs along negative curvature that diverge, of 2": 2,
    "a lambda = 0.01, delay 1.5 / a: shrinks (1 = yes)": 1,
    "a delay of 2 leaves (1 + tau)^2 times the noise": 9,
    "floor 2 a^2 L^2 (1 + tau)^2 s^2 / mu is an upper bound, a = 0.001": 2 * 0.001**2,
    "no run shorter than tau^2 converges: updates with delay 50": 2500,
    "more delay is slower at a fixed step of 0.1": 1,
    "diverges beyond tau = (1 - beta) / (a lambda (1 + beta))": 1,
    "largest step, momentum 0.9, delay 10, over that without either: the published 380": 380,
    "stable while tau < 1 / (a lambda (1 - beta)): a = 0.05, beta = 0.9, delay 10": 1,
    "gain of 13.8 in the effective step at the constant delay 2": 13.8,
    "1 / L converges at any delay": 1,
    "late curvature stays above 2 / a, from 25, a = 0.1": 20,
    "curvature where descent converges, a = 0.1: at most 2 / a": 20,
    "unequal local steps keep the objective": 0,
    "K (n - 1) gradients are missed, K = 1": 8 - 1,
    "the best K is sqrt(X / T)": math.sqrt(10),
    "139 hours for K = 1, as published": 139,
    "27.8 hours for K = 10, as published": 27.8,
    "21 hours for K = 20, as published": 21,
    "18 hours for K = 50, as published": 18,
    "hours of 100,000 iterations, K = 1": 100_000 * 5.5 / 3600,
    "hours of 150,000 iterations, K = 10": 150_000 * 1.0 / 3600,
    "hours of 220,000 iterations, K = 20": 220_000 * 0.75 / 3600,
    "hours of 400,000 iterations, K = 50": 400_000 * 0.6 / 3600,
    "vectors that SCAFFOLD sends a round": 2,
    "int8 loses 15 % of a vector": 0.15,
    "bf16 loses 1 % of a vector": 0.01,
    "top-k at 1 % sends 1 % of the bytes": 0.01,
    "top-k at 60 % sends less than the whole vector": 0.6,
    "rounding up with the distance to the upper value is unbiased: 1/4": 1 / 4,
    "PowerSGD is unbiased: mean payload along the vector": 1,
    "int8 sends an eighth of fp32": 1 / 8,
    "published bound without noise and quantizer": 0,
    "additive floor at a = 1/2: eps^2 / 12": 1 / 12,
    "power of the error, unbiased": 2,
    "power of the error, biased": 2,
    "power of the error, opposing, Huber": 1,
    "extra gap T eps^2, T = 100, error 1e-05": 100 * 1e-5**2,
    "extra gap T eps^2, T = 1000, error 1e-06": 1000 * 1e-6**2,
    "opposing, Huber, T = 100, error 1e-05": 1e-5 * 100 / 201,
    "opposing, Huber, T = 1000, error 1e-06": 1e-6 * 1000 / 2001,
    "scaled signs: x1 + x2 stays 2": 2,
    "mean payload with feedback": 0.1,
    "the first payload with feedback is unbiased": 0.1,
    "largest number of ranks for top-1 %, 32-bit indices": 99,
    "largest number of ranks for top-1 %, 64-bit indices": 66,
    "steps at condition number 1000": 2303,
    "1000 steps at condition number 1000": 1000,
    "efficiency 90 % after 10x compression": 0.9,
    "top 10 % of 10^9, 30-bit indices": 5.161,
    "top 10 %, best code": 8.72,
    "top 1 %, 32-bit indices": 50,
    "top 1 %, best code": 79.8,
    "fraction from which 30-bit indices lose": 0.516,
    "top 1 % saves 100 times": 100,
    "top 10 % of 10^9 saves 3 times": 3,
    "indices of the top 10 % are larger than the vector": 1,
    "largest error of 8 bits on [-10, 10]": 20 / 255 / 2,
    "largest error of 8 bits on [-10, 10] is 0.078": 0.078,
    "code 2^8 fits in 8 bits": 255,
    "published overflow at scale 2^15": 0.45,
    "published overflow at scale 2^18": 0.02,
    "published overflow at scale 2^20": 0.005,
    "published overflow at scale 2^24": 0.25,
    "overflow at scale 2^28": 0.0148,
    "zero at scale 1": 0.00024,
    "subnormal at scale 1": 0.457,
    "bf16 needs a scale: 1/1000 of the loss is left": 1e-3,
    "norm, clipped after unscaling": 1,
    "norm, clipped before unscaling: limit / S": 1 / 1024,
    "clipping may come before unscaling": 1,
    "six times 10^4, added one by one": 59968,
    "seven times 10^4 is finite": 1,
    "different data: the unweighted mean is unbiased": 2.2,
    "coordinate of 1 example in 20: 20 times the variance": 20,
    "B_crit / 16 instead of B_crit / 8: steps, ratio": 2,
    "time on B_crit / b workers over the least": 2,
    "w^4 / 4 at a w_0^2 = 1.9: diverges (1 = yes)": 0,
    "w^4 / 4 at a w_0^2 = 2.1: diverges (1 = yes)": 1,
    "w^4 / 4 at a w_0^2 = 4 after 10 steps of warm-up: diverges (1 = yes)": 0,
    "the linear rule holds at every batch size: loss at 40 times over the base": 1,
    "gap ~ 1 / sqrt(B steps): from 10 to 300 steps, ratio": 30**-0.5,
    "no gap at full batch": 0,
    "m(n) = m(1) sqrt(n): distance with 4 workers over that of one": 2,
    "1 / sqrt(B T): distance from 5 to 50 steps, ratio": 10**-0.5,
    "full batch: no distance": 0,
    "u = -alpha g / |g|_inf minimizes for l1": -(9 + 16 + 1) / 8 + 2,
    "signSGD with step alpha minimizes for linf": -(3 + 4 + 1) / 2 + 1 / 2,
    "sign descent at a constant rate reaches the solution": 0,
    "all all-reduces give the same bits": 1,
    "additions in collectives that only move data": 0,
    "sequential summation gives one sum in every order": 1,
    "compensation makes sums reproducible": 1,
    "1e30 + 1 - 1e30, forwards and backwards": 0,
    "1e30 - 1e30 + 1, forwards": 1,
    "1e30 - 1e30 + 1, backwards": 0,
    "1e30 + 1 - 1e30 depends on the order: a gap of 5e30": 5e30,
    "Kahan: 1 + 1e100 + 1 - 1e100 is 2": 2,
    "Neumaier: 1 + 1e100 + 1 - 1e100": 2,
    "unequal shards may be averaged without weights": 0,
    "updates per second, relative to the server capacity": 1,
}
"""Checks whose words say the number that is expected, or what it is counted from."""
FOUND: dict[str, float] = {
    "noise lowers the loss: change of f by a step from the optimum, a = 1/2": 0.5**2 / 2,
    "the gap falls like 2 L R^2 / T at any step, a = 0.01 / L": 0.99**20 / 2,
    "a = 2 / L converges": 1 / 2,
    "inside the radius the loss falls, x^2 / 2 from 1 with a = 2.5": 1.5**2 / 2,
    "runs along negative curvature that diverge, of 2": 2,
    "floor 2 a^2 L^2 (1 + tau)^2 s^2 / mu is an upper bound, a = 0.001": 0.001 / (2 - 0.001),
    "heavy ball tuned for quadratics converges on every strongly convex loss": 2592 / 1225,
    "1 / L converges at any delay": 0,
    "128 workers, K = 4: compute fraction": 0.625,
    "top-k at 1 % sends 1 % of the bytes": 0.01 * 2,
    "top-k at 60 % sends less than the whole vector": 0.6 * 2,
    "int8 sends an eighth of fp32": (1e6 + 4) / 4e6,
    "largest number of ranks for top-1 %, 32-bit indices": 99,
    "largest number of ranks for top-1 %, 64-bit indices": 66,
    "1000 steps at condition number 1000": 2303,
    "efficiency 90 % after 10x compression": 7 / 7.3,
    "top 10 % of 10^9, 30-bit indices": 32 / (0.1 * 62),
    "top 1 %, 32-bit indices": 32 / (0.01 * 64),
    "top 1 % saves 100 times": 32 / (0.32 - 0.01 * math.log2(0.01) - 0.99 * math.log2(0.99)),
    "top 10 %, best code": 32 / (3.2 - 0.1 * math.log2(0.1) - 0.9 * math.log2(0.9)),
    "fraction from which 30-bit indices lose": 32 / 62,
    "indices of the top 10 % are larger than the vector": 0.1 * 30 / 32,
    "code 2^8 fits in 8 bits": 256,
    "clipping may come before unscaling": 1 / 1024,
    "seven times 10^4 is finite": 0,
    "u = -alpha g / |g|_inf minimizes for l1": -(4**2) / 8,
    "signSGD with step alpha minimizes for linf": -(8**2) / 8,
    "1e30 + 1 - 1e30 depends on the order: a gap of 5e30": 0,
    "Kahan: 1 + 1e100 + 1 - 1e100 is 2": 0,
}
"""What is found by counting, or in the source that is cited: the cycle of heavy ball is that of Lessard et al. 2016."""
ENDINGS = {
    " at the optimum": 0, ": errors beyond the bound": 0, " over its bound, at most": 1, ": residual": 0,
    ": largest error of a coordinate": 0,  ": parameters that differ": 0,
    "in any order of operations": 1, ": squared error over its law": 1, " its stability limit: diverges (1 = yes)": 1,
    " is the step of l1": 0, " is the step of l2": 0, " is the step of linf": 0,
    "fp32 converges": 0, "scale converges": 0, "feedback: converges": 0,
    " = the large batch (sgd)": 0, " = the large batch (momentum)": 0, " = the large batch (adam)": 0,
}  # fmt: skip

MEASURED = re.compile(
    r"(^|, | )(simulated|measured|searched|counted|found|random displacements)$|^simulated at|^found by|^best constant"
)
FORMULA = re.compile(
    r"(^|, | )(law|bound|exact|target|rule)$|^(bound$|bound, |floor|sufficient|always sufficient|fixed delay|mean: "
    r"|persistent: |transient: |pi / 2|no delay: |no weight|a\^2 K|in proportion|least possible|1 / \(1|hyperbola"
    r"|from the noise scale|untrained|exact fit|-\(alpha|l1,|linf,|theta_\d, a|Lyapunov|the same step without"
    r"|no noise: log)"
)


def given(name: str) -> dict[str, object]:
    """Whole numbers at their least unless their default is at most 20; three values of a list, the first twice."""
    kind = find_experiment(name).settings
    usual = {one.name: one.default for one in fields(kind) if isinstance(one.default, int) and one.default <= 20}
    lists = {one.name: one.default[:3] + one.default[:1] for one in fields(kind) if isinstance(one.default, tuple)}
    return smallest(kind) | usual | lists | LEAST.get(name, {}) | MORE.get(name, {})


def check(name: str) -> None:
    """The laws of one run."""
    said: list[tuple[int, int]] = []
    found = find_experiment(name).answer(given(name), progress=lambda *words: said.append(words))
    assert found.agrees, found.verdict
    _reports_count_the_parts(said)
    _axes_are_those_of_their_quantities(name, found)
    labels = [curve.label for curve in found.curves]
    assert len(set(labels)) == len(labels)
    assert not all(curve.theory for curve in found.curves)
    for curve in found.curves:
        _a_formula_is_dashed_and_a_measurement_is_not(name, curve)
    _bands_are_those_of_the_checks(found)
    _numbers_said_twice_are_the_same(found)
    _numbers_in_words_are_those_expected(found)
    _a_point_lies_beside_the_law_of_its_check(found)
    tolerances_are_round(found)


def _reports_count_the_parts(said: list[tuple[int, int]]) -> None:
    """Done rises from 0 or 1, part by part, to the total, which never changes."""
    assert said, "no report"
    first, total = said[0]
    assert first in (0, 1)
    assert said == [(done, total) for done in range(first, total + 1)]


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


def _numbers_in_words_are_those_expected(found: Findings) -> None:
    for one in found.checks:
        known = [SAID[one.what]] if one.what in SAID else []
        known += [number for ending, number in ENDINGS.items() if one.what.endswith(ending)]
        assert not known or one.expected == pytest.approx(known[0], rel=1e-9, abs=1e-12), one.what
        assert one.what not in FOUND or one.got == pytest.approx(FOUND[one.what], rel=1e-9, abs=1e-12), one.what


def _a_point_lies_beside_the_law_of_its_check(found: Findings) -> None:
    """`name, simulated` and `name, law` have the same x, and the values of the checks of that point."""
    laws = {one.label.rpartition(", ")[0]: one for one in found.curves if one.theory}
    for curve in found.curves:
        assert len(curve.y) or curve.theory or found.experiment == "large-batch", curve.label
        name, comma, kind = curve.label.rpartition(", ")
        if not comma or name not in laws or kind not in ("simulated", "measured", "searched", "counted"):
            continue
        assert laws[name].x.tolist() == curve.x.tolist()
        for y, value in zip(curve.y.tolist(), laws[name].y.tolist(), strict=True):
            expected = [one.expected for one in found.checks if one.got == y and not one.false_law and y]
            assert not expected or any(value == pytest.approx(one, rel=1e-9, abs=1e-12) for one in expected)


@pytest.mark.parametrize("name", share(EXPERIMENTS, 3))
def test_every_experiment_agrees_and_plots_at_its_minimum_settings(name: str) -> None:
    check(name)
