"""Every compressor keeps its bounds, sends what it says, and does the same with numpy and with torch."""

import math
from typing import Any

import numpy as np
import pytest

from lockstep.base.errors import BadInput
from lockstep.learn.methods.compression import (
    COMPRESSORS,
    Compressor,
    ErrorFeedback,
    OneBit,
    PowerSgd,
    Qsgd,
    RandomK,
    SharedRandomK,
    Sign,
    Threshold,
    TopK,
    Uniform,
    compressor,
    exchange,
    residual_bound,
)
from lockstep.learn.methods.compression.grid import pack, unpack
from lockstep.learn.methods.compression.power_sgd import matrix_of
from optional import torch

ELEMS = 203
ALL = [
    *(kind() for kind in COMPRESSORS.values()),
    TopK(0.1), TopK(1.0), RandomK(0.3), RandomK(0.7), RandomK(0.1, scaled=False), SharedRandomK(0.25), Threshold(0.5),
    Uniform(4), Uniform(2), Uniform(8, "nearest"), Uniform(2, "nearest"), Qsgd(1), Qsgd(7), PowerSgd(1), PowerSgd(5),
]  # fmt: skip
BOTH = [*ALL, *(ErrorFeedback(one) for one in ALL)]


def label(one: Any) -> str:
    return f"{one.name}-{one!r}"[:60] if isinstance(one, Compressor) else str(one)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def vectors(elems: int = ELEMS) -> list[np.ndarray]:
    """Gaussian, heavy-tailed, of equal magnitudes, one spike, and zero."""
    draw = rng(7)
    flat = np.where(draw.random(elems) < 0.5, -1.0, 1.0)
    spike = np.zeros(elems)
    spike[3] = -2.0
    return [draw.standard_normal(elems), draw.standard_t(2.1, elems), flat, spike, np.zeros(elems)]


def once(one: Compressor, vector: Any, seed: int = 1) -> Any:
    payload, _ = one.compress(vector, one.start(vector), rng(seed))
    return one.decompress(payload)


@pytest.mark.parametrize("one", BOTH, ids=label)
def test_numpy_and_torch_send_identical_payloads(one: Compressor) -> None:
    for vector in vectors():
        single = vector.astype(np.float32)
        given = torch.from_numpy(single.copy())
        state, twin = one.start(single), one.start(given)
        for seed in range(3):
            payload, state = one.compress(single, state, rng(seed))
            other, twin = one.compress(given, twin, rng(seed))
            assert payload.size_B == other.size_B
            got = one.decompress(payload)
            assert got.dtype == np.float32
            assert got.shape == single.shape
            np.testing.assert_allclose(one.decompress(other).numpy(), got, rtol=2e-5, atol=2e-6)
        np.testing.assert_array_equal(given.numpy(), single)


@pytest.mark.parametrize("one", BOTH, ids=label)
def test_the_formula_for_bytes_counts_what_travels(one: Compressor) -> None:
    for elems in (1, 2, 7, ELEMS):
        vector = rng(elems).standard_normal(elems).astype(np.float32)
        payload, _ = one.compress(vector, one.start(vector), rng())
        formula = one.size_B(elems)
        assert formula is None or formula == payload.size_B


@pytest.mark.parametrize("one", ALL, ids=label)
def test_compression_error_bounds_hold_for_every_vector(one: Compressor) -> None:
    """In expectation: the mean over draws may exceed them by its standard error only."""
    for vector in vectors():
        random = isinstance(one, RandomK | Qsgd) or (isinstance(one, Uniform) and one.rounding == "stochastic")
        draws = np.array([once(one, vector, seed) for seed in range(300 if random else 1)])
        errors = ((draws - vector) ** 2).sum(axis=1)
        allowed = 5 * errors.std() / math.sqrt(len(errors)) + 1e-12
        squared = (vector**2).sum()
        omega, q = one.variance_factor(ELEMS), one.contraction_frac(ELEMS)
        if omega is not None:
            assert one.unbiased
            assert errors.mean() <= omega * squared + allowed
            seen = (draws - vector) @ rng(1).standard_normal((ELEMS, 8))
            assert (np.abs(seen.mean(axis=0)) <= 5 * seen.std(axis=0) / math.sqrt(len(draws)) + 1e-12).all()
        if q is not None:
            assert 0 < q <= 1
            assert errors.mean() <= (1 - q) * squared + allowed


def test_worst_vectors_reach_the_bounds() -> None:
    """No factor is loose: each has a vector where it is an equality."""
    flat = np.ones(ELEMS)
    kept = 20 / ELEMS
    assert ((once(TopK(20 / ELEMS), flat) - flat) ** 2).sum() == pytest.approx((1 - kept) * ELEMS)
    spike = np.eye(1, ELEMS)[0]
    assert ((once(OneBit(), spike) - spike) ** 2).sum() == pytest.approx(1 - 1 / ELEMS)
    nearest = Uniform(4, "nearest")
    halves = np.full(ELEMS, 0.5 - 1e-12)
    halves[0] = nearest.levels
    lost = ((once(nearest, halves) - halves) ** 2).sum() / (halves**2).sum()
    assert lost == pytest.approx(1 - (nearest.contraction_frac(ELEMS) or 0), rel=1e-9)


@pytest.mark.parametrize("levels", [1, 7])
def test_stochastic_rounding_reaches_its_largest_variance(levels: int) -> None:
    """The variance of rounding is f (1 - f) steps squared per entry, so the worst vector is known exactly."""
    one = Uniform(2 if levels == 1 else 4)
    others = ELEMS - 1
    worst = (math.sqrt(1 + others / levels**2) - 1) * levels**2 / others
    exact = others * worst * (1 - worst) / (levels**2 + others * worst**2)
    assert exact == pytest.approx(one.variance_factor(ELEMS), rel=1e-12)
    vector = np.full(ELEMS, worst)
    vector[0] = levels
    errors = np.array([((once(one, vector, seed) - vector) ** 2).sum() for seed in range(2000)]) / (vector**2).sum()
    assert abs(errors.mean() - exact) < 4 * errors.std() / math.sqrt(len(errors))


def test_qsgd_on_equal_magnitudes_is_exact() -> None:
    flat = np.ones(400)
    errors = np.array([((once(Qsgd(5), flat, seed) - flat) ** 2).sum() / 400 for seed in range(2000)])
    assert abs(errors.mean() - (math.sqrt(400) / 5 - 1)) < 4 * errors.std() / math.sqrt(len(errors))


@pytest.mark.parametrize(("bits", "published"), [(8, 2.6e-4), (4, 0.086), (2, 3.0)])
def test_the_number_of_bits_does_not_determine_the_loss(bits: int, published: float) -> None:
    """max|x| of a long Gaussian decides, (m / s)^2 / 6 while steps are short; a million entries reach 4.6 to 5.8."""
    errors = []
    for seed in range(5):
        vector = rng(seed).standard_normal(10**6)
        errors.append(((once(Uniform(bits), vector) - vector) ** 2).mean() / (vector**2).mean())
        if bits > 2:
            assert errors[-1] == pytest.approx((np.abs(vector).max() / Uniform(bits).levels) ** 2 / 6, rel=0.02)
    assert min(errors) < published < max(errors)


def test_one_bit_error_is_exact_and_two_over_pi_for_gaussians() -> None:
    vector = rng(5).standard_normal(100_000)
    q = 1 - ((once(OneBit(), vector) - vector) ** 2).sum() / (vector**2).sum()
    assert q == pytest.approx(np.abs(vector).sum() ** 2 / (len(vector) * (vector**2).sum()), rel=1e-9)
    assert q == pytest.approx(2 / math.pi, abs=0.005)


def test_threshold_has_an_absolute_bound_and_no_relative_one() -> None:
    one = Threshold(0.5)
    for vector in vectors():
        assert ((once(one, vector) - vector) ** 2).sum() <= one.error_bound(ELEMS)
    small = np.full(ELEMS, 0.4)
    assert (once(one, small) == 0).all()


def test_sign_makes_a_small_vector_longer() -> None:
    assert np.abs(once(Sign(), np.full(8, 1e-3, np.float32))).sum() == 8


@pytest.mark.parametrize("name", [name for name, kind in COMPRESSORS.items() if kind.neutral is not None])
@pytest.mark.parametrize("error_feedback", [False, True])
def test_the_neutral_setting_compresses_nothing(name: str, error_feedback: bool) -> None:
    one = compressor(name, error_feedback=error_feedback, **COMPRESSORS[name].neutral)
    for vector in vectors():
        np.testing.assert_allclose(once(one, vector), vector, rtol=0, atol=1e-13 * np.abs(vector).max())


@pytest.mark.parametrize("one", ALL, ids=label)
def test_error_feedback_loses_nothing(one: Compressor) -> None:
    """Sent + residual = sum of gradients, whatever the compressor does."""
    memory = ErrorFeedback(one)
    draw = rng(11)
    state = memory.start(np.zeros(ELEMS))
    sent, total = np.zeros(ELEMS), np.zeros(ELEMS)
    for _ in range(12):
        gradient = draw.standard_normal(ELEMS)
        total += gradient
        payload, state = memory.compress(gradient, state, draw)
        sent += memory.decompress(payload)
    scale = max(np.abs(sent).max(), np.abs(state[0]).max(), 1.0)
    np.testing.assert_allclose(sent + state[0], total, rtol=0, atol=1e-12 * scale)


def test_the_residual_of_a_contraction_stays_bounded() -> None:
    one = ErrorFeedback(TopK(0.1))
    draw, state = rng(2), ErrorFeedback(TopK(0.1)).start(np.zeros(ELEMS))
    longest = 0.0
    for _ in range(300):
        gradient = np.sign(draw.standard_normal(ELEMS))
        _, state = one.compress(gradient, state, draw)
        longest = max(longest, float((state[0] ** 2).sum()))
    q = one.contraction_frac(ELEMS)
    assert q is not None
    assert ELEMS < longest <= residual_bound(q, math.sqrt(ELEMS))


def test_feedback_must_scale_an_unbiased_compressor_down() -> None:
    """omega = 9: as it is the residual explodes, divided by 1 + omega it is the unscaled contraction."""
    given = np.ones(100)
    wild, tame = ErrorFeedback(RandomK(0.1)), ErrorFeedback(RandomK(0.1), scaled_down=True)
    lengths = []
    for one in (wild, tame):
        draw, state = rng(4), one.start(given)
        for _ in range(100):
            _, state = one.compress(given, state, draw)
        lengths.append(float((state[0] ** 2).sum()))
    assert tame.contraction_frac(100) == pytest.approx(0.1)
    assert lengths[1] <= residual_bound(0.1, 10.0)
    assert lengths[0] > 1e20


@pytest.mark.parametrize("one", BOTH, ids=label)
def test_an_exchange_is_the_mean_of_what_was_sent(one: Compressor) -> None:
    """Over two rounds, so that states take part; with equal generators, as a shared draw needs."""
    ranks = 3
    draw = rng(9)
    states: Any = [one.start(np.zeros(ELEMS)) for _ in range(ranks)]
    for seed in range(2):
        gradients = [draw.standard_normal(ELEMS) for _ in range(ranks)]
        found = exchange(one, gradients, states, [rng(seed) for _ in range(ranks)])
        states = found.states
        sent = np.mean([one.decompress(payload) for payload in found.payloads], axis=0)
        tolerance = 2e-3 if one.name.startswith("fp16") else 1e-12
        np.testing.assert_allclose(found.mean, sent, rtol=0, atol=tolerance * np.abs(sent).max())
        share = np.mean([payload.size_B for payload in found.payloads])
        assert found.sent_per_rank_B(False) == pytest.approx(2 * share)
        assert found.sent_per_rank_B(True) == pytest.approx(4 / 3 * share)


def test_independent_draws_average_out_and_a_shared_one_does_not() -> None:
    """The mean of n equal vectors has omega / n with own draws, omega with one draw for all."""
    ranks, vector = 4, rng(1).standard_normal(50)
    own, shared = [], []
    for trial in range(600):
        draws = [rng(1000 * trial + rank) for rank in range(ranks)]
        given, states = [vector] * ranks, [None] * ranks
        own.append(((exchange(RandomK(0.2), given, states, draws).mean - vector) ** 2).sum())
        same = [rng(trial) for _ in range(ranks)]
        shared.append(((exchange(SharedRandomK(0.2), given, states, same).mean - vector) ** 2).sum())
    for errors, omega in ((own, 4 / ranks), (shared, 4.0)):
        ratio = np.array(errors) / (vector**2).sum()
        assert abs(ratio.mean() - omega) < 4 * ratio.std() / math.sqrt(len(ratio))


def test_power_sgd_finds_the_best_rank_of_a_lasting_matrix() -> None:
    left, _ = np.linalg.qr(rng(1).standard_normal((20, 20)))
    right, _ = np.linalg.qr(rng(2).standard_normal((15, 15)))
    singular = 0.5 ** np.arange(15)
    matrix = left[:, :15] * singular @ right.T
    one, state = PowerSgd(3), PowerSgd(3).start(matrix)
    best = (singular[3:] ** 2).sum()
    errors = []
    for _ in range(30):
        payload, state = one.compress(matrix, state, rng())
        errors.append(((one.decompress(payload) - matrix.reshape(-1)) ** 2).sum())
    assert min(errors) >= best * (1 - 1e-9)
    assert errors[0] > 1.01 * best
    assert errors[-1] == pytest.approx(best, rel=1e-9)


def test_power_sgd_of_many_ranks_is_that_of_their_mean() -> None:
    draw, one = rng(3), PowerSgd(2)
    given = [draw.standard_normal((6, 8)) for _ in range(4)]
    states = [one.start(matrix) for matrix in given]
    mean = sum(given) / 4
    state = one.start(mean)
    for _ in range(3):
        found = exchange(one, given, states, [draw] * 4)
        states = list(found.states)
        payload, state = one.compress(mean, state, draw)
        np.testing.assert_allclose(found.mean, one.decompress(payload), atol=1e-12)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_packed_codes_round_trip(bits: int) -> None:
    for elems in range(1, 20):
        codes = rng(elems).integers(0, 2**bits, elems)
        assert (unpack(pack(codes, bits), bits, elems) == codes).all()
        assert len(pack(codes, bits)) == math.ceil(elems * bits / 8)


def test_top_k_breaks_ties_by_position() -> None:
    for vector in (np.array([1.0, -2, 2, -2, 1]), torch.tensor([1.0, -2, 2, -2, 1])):
        payload, _ = TopK(0.4).compress(vector, None, rng())
        assert payload.arrays[1].tolist() == [1, 2]


def test_a_vector_without_a_shape_is_padded_to_a_matrix() -> None:
    assert matrix_of(np.arange(7.0)).shape == (2, 4)
    assert matrix_of(np.ones((3, 2, 4))).shape == (3, 8)


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("top-kk", {}, "top-k"), ("top-k", {"keep_frac": 0.0}, "above 0"), ("top-k", {"rank": 2}, "keep_frac"),
        ("top-k", {"index_bits": 16}, "32 or 64"), ("int8", {"bits": 1}, "one-bit"), ("qsgd", {"levels": 200}, "127"),
        ("int8", {"rounding": "up"}, "nearest"), ("threshold", {"threshold": math.nan}, "finite"),
        ("power-sgd", {"rank": 0}, "at least 1"), ("none", {"x": 1}, "no settings"),
    ],
)  # fmt: skip
def test_refusals_of_settings_state_what_is_allowed(name: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        compressor(name, **settings)


FOLLOWED = [*(kind() for name, kind in COMPRESSORS.items() if name not in ("top-k", "threshold")), TopK(1.0)]
"""Whose payload has a size that the values do not decide: what a device without values can follow."""


@pytest.mark.parametrize("one", [*FOLLOWED, *(ErrorFeedback(one) for one in FOLLOWED)], ids=label)
def test_compression_stays_on_the_device_of_the_vector(one: Compressor) -> None:
    vector = torch.empty(40, device="meta")
    payload, _ = one.compress(vector, one.start(vector), rng())
    made = (*payload.arrays, *(() if payload.shared is None else (payload.shared,)))
    assert {array.device.type for array in made} == {"meta"}
    assert one.decompress(payload).device.type == "meta"
