"""Splits of a batch: the fastest whole split by brute force, exact weights, memory limits."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.base.errors import BadInput, Infeasible
from lockstep.simulate.failures.stragglers import balance, gradient_variance

EXAMPLES = settings(max_examples=50, derandomize=True, deadline=None)
speeds_lists = st.lists(st.floats(0.1, 10.0), min_size=1, max_size=4)


@EXAMPLES
@given(speeds_lists, st.integers(1, 9), st.data())
def test_no_other_split_is_faster(speeds: list[float], batch: int, data: st.DataObject) -> None:
    most = data.draw(st.lists(st.integers(0, 9), min_size=len(speeds), max_size=len(speeds)))
    splits = [s for s in itertools.product(range(batch + 1), repeat=len(speeds)) if sum(s) == batch]
    splits = [s for s in splits if all(a <= b for a, b in zip(s, most, strict=True))]
    if not splits:
        with pytest.raises(Infeasible):
            balance(speeds, batch, most=most)
        return
    found = balance(speeds, batch, most=most)
    fastest = min(max(a / v for a, v in zip(s, speeds, strict=True)) for s in splits)
    assert found.balanced_s == pytest.approx(fastest, rel=1e-12)
    assert sum(found.shares) == batch
    assert found.bound_s <= found.balanced_s * (1 + 1e-12)


@EXAMPLES
@given(speeds_lists, st.integers(1, 10**6))
def test_weights_are_exact_and_sum_to_one(speeds: list[float], batch: int) -> None:
    found = balance(speeds, batch)
    assert sum(Fraction(share, batch) for share in found.shares) == 1
    assert sum(found.weights) == pytest.approx(1.0, abs=1e-15 * len(speeds))
    assert found.speedup >= 1 - 1e-12


@EXAMPLES
@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=24), speeds_lists)
def test_sample_weighted_means_equal_the_batch_mean(values: list[int], speeds: list[float]) -> None:
    """In exact fractions, for any gradients and any split."""
    shares = balance(speeds, len(values)).shares
    edges = np.concatenate(([0], np.cumsum(shares))).tolist()
    parts = [values[a:b] for a, b in itertools.pairwise(edges)]
    weighted = sum(
        (Fraction(len(part), len(values)) * Fraction(sum(part), len(part)) for part in parts if part), Fraction(0)
    )
    assert weighted == Fraction(sum(values), len(values))


def test_the_gain_of_balancing_is_mean_over_smallest_speed() -> None:
    speeds = [1.0, 2.0, 3.0, 2.0]
    found = balance(speeds, 8 * 1000)
    assert found.shares == (1000, 2000, 3000, 2000)
    assert found.speedup == pytest.approx(np.mean(speeds) / min(speeds), rel=1e-12)
    assert max(found.idle_frac) == pytest.approx(0.0, abs=1e-12)


def test_workers_with_full_memory_leave_the_rest_to_others() -> None:
    found = balance([3.0, 1.0, 1.0], 100, most=[40, 100, 100])
    assert found.shares == (40, 30, 30)
    assert (found.balanced_s, found.static_s) == (30.0, 34.0 / 1.0 if max(found.static_shares[1:]) == 34 else 33.0)
    assert not balance([1.0, 1.0], 10, most=[2, 10]).static_fits


@pytest.mark.parametrize(
    ("shares", "weighted", "plain"), [((10, 1000), 0.00099010, 0.02525), ((16, 48), 0.015625, 0.0208333)]
)
def test_plain_averaging_of_unequal_shares_is_noisier(shares: tuple[int, ...], weighted: float, plain: float) -> None:
    assert gradient_variance(shares) == pytest.approx((weighted, plain), rel=1e-4)


def one_by_one(speeds: list[float], batch: int, most: list[int]) -> tuple[int, ...]:
    """Every sample to whoever ends it first; ties to the faster worker, then to the lower number."""
    shares = [0] * len(speeds)
    for _ in range(batch):
        open_workers = [i for i in range(len(speeds)) if shares[i] < most[i]]
        shares[min(open_workers, key=lambda i: ((shares[i] + 1) / speeds[i], -speeds[i], i))] += 1
    return tuple(shares)


@EXAMPLES
@given(
    st.lists(st.sampled_from([0.5, 1.0, 1.0, 2.0, 3.0, 7.0]) | st.floats(0.01, 100.0), min_size=1, max_size=12),
    st.integers(1, 60),
    st.data(),
)
def test_each_sample_goes_to_the_worker_that_finishes_it_first(
    speeds: list[float], batch: int, data: st.DataObject
) -> None:
    most = data.draw(st.lists(st.integers(0, 30), min_size=len(speeds), max_size=len(speeds)))
    most[0] += max(0, batch - sum(most))
    assert balance(speeds, batch, most=most).shares == one_by_one(speeds, batch, most)


def test_a_hundred_thousand_speeds_follow_the_same_rule() -> None:
    """No worker could end another sample sooner than the last one ends."""
    speeds = np.random.default_rng(7).uniform(1.0, 3.0, 100_000)
    found = balance(speeds.tolist(), 3_000_001)
    shares = np.array(found.shares)
    assert shares.sum() == 3_000_001
    assert ((shares + 1) / speeds).min() >= (shares / speeds).max()


def test_slow_workers_are_not_lost_to_rounding_beside_fast_ones() -> None:
    """When the fast worker is full, the rate of the slow one is far below the rounding of their sum."""
    found = balance([1e-9, 1e15], 100, most=[1000, 10])
    assert found.shares == (90, 10)
    assert found.bound_s == pytest.approx(90e9)


@pytest.mark.parametrize("speed", [1e-300, 5e-324, 1e300])
def test_impossible_speeds_are_refused(speed: float) -> None:
    with pytest.raises(BadInput, match="samples per second"):
        balance([speed, 1.0], 100)


@pytest.mark.parametrize(
    "arguments", [{"speeds": []}, {"speeds": [0.0]}, {"batch": 0}, {"most": [1]}, {"most": [-1, 9]}, {"comm_s": -1.0}]
)
def test_bad_input_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        balance(**{"speeds": [1.0, 2.0], "batch": 4, **arguments})  # type: ignore[arg-type]
