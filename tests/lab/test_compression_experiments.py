"""Compression in the lab: agreement over seeds, golden values, and settings at their edges."""

import math
from functools import cache

import numpy as np
import pytest

import lockstep
from effort import share
from lockstep.base.errors import BadInput
from lockstep.learn.lab import Findings
from lockstep.learn.lab.descent.workers import Reached, best_run, descend
from lockstep.learn.lab.experiments.compression import (
    aggregation_error,
    compression_factors,
    compression_stability,
    compression_time,
    error_feedback,
    layerwise_compression,
)
from lockstep.learn.lab.experiments.compression.communication_bound import bound_bits
from lockstep.learn.lab.experiments.compression.index_bits import _coded_bits
from lockstep.learn.lab.laws import energy_above, rounding_energy, tail, threshold_of
from lockstep.learn.lab.objectives.workers import Rotated, rotated_workers
from lockstep.learn.lab.statistics import streams
from lockstep.learn.methods.compression import Compressor, ErrorFeedback, Half, NoCompression, PowerSgd, RandomK, TopK

QUICK: dict[str, dict[str, object]] = {
    "compression-factors": {"elems": 4000, "vectors": 20},
    "compression-stability": {"draws": 100},
    "compression-noise": {"elems": 20, "repetitions": 8, "steps": 300, "step_sizes": "0.1,0.2", "ranks": 2},
    "aggregation-error": {},
    "error-feedback": {"steps": 800},
    "layerwise-compression": {"layer_elems": 1000},
    "compression-time": {"elems": 30, "condition": 10.0, "target": 0.01},
    "index-bits": {"elems": 20_000},
    "communication-bound": {"elems": 7, "targets": "0.3,0.01,1e-5"},
}


FACTORS = compression_factors.Settings()


@cache
def answer(name: str, seed: int) -> Findings:
    """Each is run once."""
    return lockstep.converge(name, QUICK[name], seed=seed)


SEEDED = [(name, seed) for place, name in enumerate(QUICK) for seed in (1, *share(range(2, 6), 4, place))]


@pytest.mark.parametrize(("name", "seed"), SEEDED)
def test_laws_hold_for_other_seeds(name: str, seed: int) -> None:
    found = answer(name, seed)
    assert found.agrees, found.verdict


@pytest.mark.parametrize("name", QUICK)
def test_equal_seeds_give_identical_answers(name: str) -> None:
    assert lockstep.converge(name, QUICK[name], seed=1).to_dict() == answer(name, 1).to_dict()


def test_random_k_and_three_ranks_match_golden_values() -> None:
    factors = {check.what: check.expected for check in lockstep.converge("compression-stability", {"draws": 20}).checks}
    golden = {0.1: 0.90, 0.19: 0.981, 0.2: 1.00, 0.5: 2.5, 1.0: 9.0}
    for step, value in golden.items():
        assert factors[f"factor of one step, a = {step:g}, 1 ranks"] == pytest.approx(value)
    grown = error_feedback._three_ranks(error_feedback.TOP_ONE, 0.01, 200)
    assert grown[-1] == pytest.approx(37.8, abs=0.05)
    mended = error_feedback._three_ranks(ErrorFeedback(error_feedback.TOP_ONE), 0.01, 6000)
    assert mended[-1] < 1e-24


def hessians(problem: Rotated) -> np.ndarray:
    """Of every worker: its gradients along the axes."""
    columns = [problem.worker_gradients(axis) for axis in np.eye(problem.dimension)]
    return np.stack(columns, axis=-1)


def test_dense_descent_takes_the_steps_of_its_rate() -> None:
    problem, start = rotated_workers(1, 20, 50.0, seed=3)
    step, target = 0.5, 1e-4
    found = descend(problem, start, NoCompression(), step, target, 5000, seed=0)
    spectrum = np.linalg.eigvalsh(hessians(problem).mean(axis=0))
    # Every direction starts with the same loss, so the loss is the mean of (1 - a l)^2t.
    law = ((1 - step * spectrum) ** (2 * np.arange(5000)[:, np.newaxis])).mean(axis=1)
    assert found.steps == int(np.argmax(law <= target))
    np.testing.assert_allclose(found.losses, law[: len(found.losses)], rtol=1e-9)


def test_shares_of_the_ranks_average_to_the_spectrum() -> None:
    problem, _ = rotated_workers(4, 12, 30.0, seed=1)
    mean = np.linalg.eigvalsh(hessians(problem).mean(axis=0))
    np.testing.assert_allclose(mean, np.geomspace(1 / 30, 1, 12), rtol=1e-9)
    assert not np.allclose(*hessians(problem)[:2])
    point = np.arange(12.0)
    assert problem.gradient(point) == pytest.approx(hessians(problem).mean(axis=0) @ point)
    assert float(problem.loss(point)) == pytest.approx(point @ problem.gradient(point) / 2)


def test_a_diverging_or_too_short_run_is_reported() -> None:
    problem, start = rotated_workers(2, 40, 10.0, seed=0)
    wild = descend(problem, start, RandomK(0.05), 1.9, 1e-3, 500, seed=0)
    assert wild.steps is None
    assert len(wild.losses) < 500
    assert best_run(problem, start, TopK(0.05), 1e-9, 100, seed=0).steps is None
    answer = lockstep.converge("compression-time", {"most_steps": 100, "condition": 1000.0, "elems": 20})
    text = str(answer.to_dict())
    assert "inf" not in text.replace("information", "")
    assert "nan" not in text


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_break_even_is_where_the_order_changes(ranks: int) -> None:
    settings = compression_time.Settings(ranks=ranks)
    problem, start = rotated_workers(2, 30, 10.0, seed=0)
    makers = (NoCompression(), ErrorFeedback(TopK(0.01)))
    dense, sparse = (
        compression_time._priced(one, best_run(problem, start, one, 1e-2, 2000, 0), settings, 0) for one in makers
    )
    edge = compression_time.break_even_Bps(sparse, dense, settings)
    assert edge
    many = compression_time.Settings(ranks=1000)
    crowd = [compression_time._priced(one.made, one.run, many, 0) for one in (sparse, dense)]
    assert compression_time.break_even_Bps(crowd[0], crowd[1], many) == 0
    assert sparse.run_s(settings, edge / 1.01) < dense.run_s(settings, edge / 1.01)
    assert sparse.run_s(settings, edge * 1.01) > dense.run_s(settings, edge * 1.01)


def test_time_to_compress_can_be_measured() -> None:
    given: dict[str, object] = {**QUICK["compression-time"], "compress_time": "measured"}
    assert lockstep.converge("compression-time", given).agrees


def test_gaussian_integrals_match_sampling() -> None:
    draw = np.random.Generator(np.random.PCG64(0)).standard_normal(1_000_000)
    assert tail(threshold_of(0.05)) == pytest.approx(0.05)
    assert threshold_of(1.0) == 0.0
    assert energy_above(0.0) == pytest.approx(1.0)
    assert energy_above(1.5) == pytest.approx((draw**2 * (np.abs(draw) > 1.5)).mean(), rel=0.01)
    assert rounding_energy(11) == pytest.approx(((draw.astype(np.float16) - draw) ** 2).mean(), rel=0.01)
    assert math.isclose(rounding_energy(8), 64 * rounding_energy(11))


def test_the_bound_counts_balls_that_cover_the_cube() -> None:
    """In one dimension a ball of radius r is an interval of 2 r; in many the volume follows Stirling."""
    assert bound_bits(1, 1 / 32) == pytest.approx(1.0)
    law = 500 * math.log2(1000 / (4 * math.pi * math.e * 1e-3))
    assert bound_bits(1000, 1e-3) == pytest.approx(law, rel=0.002)


@pytest.mark.parametrize("elems", [1, 2, 3, 500])
def test_bits_hold_in_every_dimension(elems: int) -> None:
    found = lockstep.converge("communication-bound", {"elems": elems})
    assert found.agrees, found.verdict


@pytest.mark.parametrize("k", [0, 1, 3, 6])
def test_no_rice_code_is_shorter_than_the_one_counted(k: int) -> None:
    """Bit by bit: the quotient in ones and a zero, the rest in k bits."""
    chosen = np.flatnonzero(np.random.Generator(np.random.PCG64(1)).random(5000) < 0.05)
    gaps = (np.diff(chosen, prepend=-1) - 1).tolist()
    written = "".join("1" * (gap >> k) + "0" + (f"{gap % 2**k:0{k}b}" if k else "") for gap in gaps)
    assert len(written) >= _coded_bits(chosen)
    assert _coded_bits(np.array([0, 1, 2])) == 3


def test_a_step_without_a_floor_is_refused() -> None:
    with pytest.raises(BadInput, match="to have a floor"):
        lockstep.converge("compression-noise", {"step_sizes": "0.6"})


def test_the_laws_of_one_vector_are_the_mean_loss_of_its_rounding() -> None:
    """Signs by their definition, grids over both ends that an entry may be rounded to."""
    x = np.array([3.0, -1.0, 2.0, 0.5, -4.0, 0.0])
    laws = {compression_factors._label(one.made): one.lost(x) for one in compression_factors._cases(FACTORS)}
    squared, sign = (x**2).sum(), np.where(x < 0, -1.0, 1.0)
    assert laws["one-bit"] == pytest.approx(((np.abs(x).mean() * sign - x) ** 2).sum() / squared)
    assert laws["sign"] == pytest.approx(((sign - x) ** 2).sum() / squared)

    def rounded(levels: int, longest: float) -> float:
        lost = 0.0
        for entry in np.abs(x) / longest * levels:
            low = math.floor(entry)
            lost += (low + 1 - entry) * (entry - low) ** 2 + (entry - low) * (low + 1 - entry) ** 2
        return lost * (longest / levels) ** 2 / squared

    assert laws["int8"] == pytest.approx(rounded(127, 4.0))
    assert laws["int8 4 bits"] == pytest.approx(rounded(7, 4.0))
    assert laws["int8 2 bits"] == pytest.approx(rounded(1, 4.0))
    for levels, name in ((127, "qsgd 127 levels"), (7, "qsgd 7 levels"), (1, "qsgd 1 level")):
        assert laws[name] == pytest.approx(rounded(levels, math.sqrt(squared)))
    for kept in (0.01, 0.1, 0.3):
        assert laws[f"random-k {kept:.0%}"] == pytest.approx(1 / kept - 1)
        assert laws[f"random-k {kept:.0%} unscaled"] == pytest.approx(1 - kept)


def test_layers_grow_by_the_ratio_and_top_k_keeps_the_largest_entries() -> None:
    """Sorted entries of the same draws: the layer after is the larger one."""
    settings = layerwise_compression.Settings(layers=3, layer_elems=100, keep_frac=0.07, repetitions=4)
    found = layerwise_compression._losses(settings, 5.0, seed=2)
    for place, draw in enumerate(streams(2, 4)):
        gradient = draw.standard_normal((3, 100)) * np.array([[1.0], [5.0], [25.0]])
        squared = (gradient**2).sum()
        each = np.sort(gradient**2, axis=1)[:, :-7].sum() / squared
        whole = np.sort(gradient**2, axis=None)[:-21].sum() / squared
        steps = np.abs(gradient).max(axis=1) / 127
        assert found["top_k_by_layer_lost_frac"][place] == pytest.approx(each)
        assert found["top_k_at_once_lost_frac"][place] == pytest.approx(whole)
        assert found["int8_by_layer_law_lost_frac"][place] == pytest.approx(100 * (steps**2 / 6).sum() / squared)
    assert found["int8_at_once_lost_frac"].mean() == pytest.approx(
        3 * found["int8_by_layer_law_lost_frac"].mean(), rel=0.5
    )


@pytest.mark.parametrize(("step_size", "short", "long"), [(0.3, 100, 400), (0.05, 30, 40), (0.05, 60, 70)])
@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
def test_growth_with_the_steps_is_refuted_only_where_it_is_measurable(
    step_size: float, short: int, long: int, size: float
) -> None:
    """A constant error moves the point to -size; the longest run still has (1 + size) (1 - a)^T of its way."""
    found = lockstep.converge(
        "aggregation-error",
        {"step_size": step_size, "steps": (short, long), "errors": (size,), "repetitions": 100},
    )
    first, last = (((1 + size) * (1 - step_size) ** steps - size) ** 2 / 2 for steps in (short, long))
    grown = first * long / short
    seen = abs(size**2 / 2 - grown) > 2 * abs(size**2 / 2 - last)
    what = "gap grows like T eps^2, biased"
    assert (what in {one.what for one in found.checks}) == seen
    if seen:
        assert next(one.expected for one in found.checks if one.what == what) == pytest.approx(grown, rel=1e-9)


@pytest.mark.parametrize("parameters", [10**4, 10**6, 10**8])
def test_the_real_gradient_is_sent_in_the_share_of_the_small_one(parameters: int) -> None:
    settings = compression_time.Settings(elems=100, parameters=parameters)
    small = ErrorFeedback(PowerSgd(2))
    grown = compression_time._grown(small, settings)
    assert (grown.size_B(parameters) or 0) / parameters == pytest.approx((small.size_B(100) or 0) / 100, rel=0.01)
    for other in (Half(), ErrorFeedback(TopK(0.1)), NoCompression()):
        assert compression_time._grown(other, settings) is other


def test_the_worked_example_of_compression_time_gives_four_milliseconds() -> None:
    """Of a step that computes for 7 parts and sends for 3, a tenth of the sending is left: 7 / 7.3."""
    (check,) = compression_time._efficiency()
    assert check.got == pytest.approx(7 / 7.3)
    assert check.expected == 0.9
    assert check.false_law
    assert check.ok


def priced(made: Compressor, steps: int | None, critical_B: float, fixed_s: float) -> compression_time.Priced:
    """A run of so many steps that sends so many bytes, without latency."""
    return compression_time.Priced(made, Reached(steps, 1.0, np.ones(1)), critical_B, critical_B, 0.0, fixed_s)


def test_break_even_has_equal_times_or_names_the_permanent_winner() -> None:
    settings = compression_time.Settings(compute_s=1.0)
    dense = priced(NoCompression(), 100, 1e9, 0.0)
    for one, edge in (
        (priced(Half(), 110, 0.5e9, 0.0), (100e9 - 55e9) / 10.0),
        (priced(Half(), 100, 0.5e9, 0.5), (100e9 - 50e9) / 50.0),
        (priced(Half(), 100, 0.5e9, 0.0), None),
        (priced(Half(), 90, 0.5e9, 0.0), None),
        (priced(Half(), 200, 0.5e9, 0.0), 0.0),
        (priced(Half(), 200, 0.6e9, 0.0), 0.0),
        (priced(Half(), 50, 2e9, 0.0), None),
        (priced(Half(), None, 0.5e9, 0.0), 0.0),
    ):
        assert compression_time.break_even_Bps(one, dense, settings) == edge
    assert compression_time.break_even_Bps(dense, priced(Half(), None, 1.0, 0.0), settings) is None


@pytest.mark.parametrize(("apart", "agrees"), [(0.95e-9, True), (1.05e-9, False)])
def test_both_runs_take_as_long_at_break_even_to_nine_digits(
    monkeypatch: pytest.MonkeyPatch, apart: float, agrees: bool
) -> None:
    dense, half = priced(NoCompression(), 100, 1e9, 0.0), priced(Half(), 110, 0.5e9, 0.0)
    monkeypatch.setattr(
        compression_time, "_collective_run_s", lambda one, *_: 7.0 if one is dense else 7.0 * (1 + apart)
    )
    (check,) = compression_time._break_even_checks([dense, half], compression_time.Settings())
    assert check.ok is agrees
    assert not check.false_law


@pytest.mark.parametrize(("step_size", "steps"), [(0.3, 30), (0.05, 60), (0.05, 100), (0.02, 400), (0.02, 1000)])
@pytest.mark.parametrize("size", [1e-4, 0.01, 1.0])
def test_error_exponents_are_fitted_after_the_start_is_forgotten(step_size: float, steps: int, size: float) -> None:
    """What is left of the start, (1 - a)^T for at most 400 steps, against a twentieth of the noise's own spread."""
    found = lockstep.converge(
        "aggregation-error",
        {"step_size": step_size, "steps": (steps,), "errors": (size, 2 * size), "repetitions": 100},
    )
    forgotten = (1 - step_size) ** min(steps, 400) <= size / 20 * math.sqrt(step_size)
    checked = {one.what: one for one in found.checks}
    for name in ("unbiased", "biased"):
        assert (f"power of the error, {name}" in checked) == forgotten
    assert "power of the error, opposing, Huber" in checked
    if forgotten:
        error = 2 / math.sqrt(100) / math.log(2)
        assert checked["power of the error, unbiased"].standard_error == pytest.approx(error, rel=0.4)
        assert checked["power of the error, biased"].standard_error == 0.0
        assert all(one.ok for what, one in checked.items() if what.startswith("power of the error"))


def test_the_gaps_of_one_error_are_those_of_the_written_laws() -> None:
    """Stationary spread, fixed point x = -eps, and T equal steps of a slope 1 / (2 T + 1)."""
    settings = aggregation_error.Settings(step_size=0.2, repetitions=100)
    allowed = aggregation_error._allowed(settings, 0.1, 50)
    laws = {name: (law, got, allowed[name]) for name, law, got in aggregation_error._gaps(settings, 0.1, 50, 0)}
    assert laws["unbiased"][0] == pytest.approx(0.2 * 0.1**2 / (2 * (2 - 0.2)))
    assert laws["unbiased"][1][0] == pytest.approx(laws["unbiased"][0], rel=0.5)
    position = 0.8**50 * 1.1 - 0.1
    assert laws["biased"][0] == pytest.approx(0.1**2 / 2)
    assert laws["biased"][1] == pytest.approx((position**2 / 2, 0.0))
    assert laws["biased"][2] == pytest.approx(0.1**2 / 2 - position**2 / 2, abs=2e-12)
    assert laws["unbiased"][2] == pytest.approx(0.8**100 * (1 / 2 - laws["unbiased"][0]), abs=2e-12)
    assert laws["opposing, Huber"][0] == pytest.approx(0.1 * 50 / 101**2)
    assert laws["opposing, Huber"][1][0] == pytest.approx(0.1 * 50 / 101**2)
    assert [one.value for one in aggregation_error._laws(settings, 0.1, 50)] == pytest.approx(
        [law for law, _, _ in laws.values()]
    )


@pytest.mark.parametrize(
    ("errors", "step_size", "steps"),
    [
        ((1.0, 2.0), 0.3, (30,)),
        ((3.0, 10.0), 0.3, (50,)),
        ((10.0,), 1e-3, (100_000,)),
        ((10.0,), 1e-3, (30, 100_000)),
        ((8.3e-4, 8.4e-4), 0.3, (30,)),
        ((0.0865,), 1e-3, (30,)),
    ],
)
def test_errors_of_every_size_agree_while_the_start_is_not_forgotten(
    errors: tuple[float, ...], step_size: float, steps: tuple[int, ...]
) -> None:
    found = lockstep.converge(
        "aggregation-error", {"errors": errors, "step_size": step_size, "steps": steps, "repetitions": 2000}
    )
    assert found.agrees, found.verdict


@pytest.mark.parametrize("step_size", [1e-3, 0.05, 0.3, 0.9])
@pytest.mark.parametrize("size", [1e-4, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("steps", [30, 100, 400])
def test_the_tolerance_of_a_gap_is_the_remaining_effect_of_the_start(step_size: float, size: float, steps: int) -> None:
    """Moments step by step: the mean goes to 0 or to -size, the spread grows by a^2 size^2."""
    settings = aggregation_error.Settings(step_size=step_size, repetitions=100)
    biased, square = 1.0, 1.0
    for _ in range(steps):
        biased = (1 - step_size) * biased - step_size * size
        square = (1 - step_size) ** 2 * square + step_size**2 * size**2
    rounding = 1e-12 * max(1.0, size**2)
    allowed = aggregation_error._allowed(settings, size, steps)
    for name, law, _ in aggregation_error._gaps(settings, size, steps, 0):
        left = allowed[name]
        exact = {"unbiased": square / 2, "biased": biased**2 / 2}.get(name, law)
        assert abs(exact - law) <= left <= abs(exact - law) + 2 * rounding, name


@pytest.mark.parametrize("size", [0.3, 1.0, 10.0])
def test_the_tolerance_of_the_length_exponent_is_the_effect_of_the_start(size: float) -> None:
    """Left out while more than half of the way is before a run; beyond, its slope in logarithms and no more."""
    for short, held in ((30, False), (120, True)):
        found = lockstep.converge(
            "aggregation-error", {"errors": (size,), "step_size": 0.02, "steps": (short, 300), "repetitions": 100}
        )
        one = next((one for one in found.checks if one.what == "power of T, biased"), None)
        assert (one is not None) == held == ((1 + 1 / size) * 0.98**short <= 0.5)
        if one is not None:
            assert abs(one.got) <= one.tolerance <= abs(one.got) + 2e-6


def test_factors_of_random_k_follow_from_its_second_moment() -> None:
    """E |x - a C(x)|^2 = 1 - 2 a + a^2 (1 + omega), by all choices of 1 entry of 3."""
    x, omega = np.array([1.0, -2.0, 0.5]), 3 - 1
    for step in (0.1, 0.5, 1.2):
        moved = [x - step * 3 * x * (np.arange(3) == kept) for kept in range(3)]
        mean = float(np.mean([(one**2).sum() for one in moved])) / float((x**2).sum())
        assert compression_stability._factor(step, omega) == pytest.approx(mean)
    assert compression_stability._factor(2 / (1 + omega), omega) == pytest.approx(1.0)
