"""Schedules of asynchronous updates: laws that hold for any times, and the closed forms of fixed ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.learn.lab.descent.updates import Updates, asynchronous, cut_off, worker_times_s
from lockstep.simulate.failures.stragglers.bounded import finish_s
from lockstep.simulate.play import Constant, Exponential


def times(workers: int, steps: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).exponential(1.0, (steps, workers)) + 1e-3


def brute_force(times_s: np.ndarray) -> tuple[list[int], list[int]]:
    """(workers, reads) of updates in the order of their ends, one event at a time."""
    steps, workers = times_s.shape
    ends = [float(times_s[0, i]) for i in range(workers)]
    done, version, order, reads = [1] * workers, [0] * workers, [], []
    while True:
        i = int(np.argmin(ends))
        order.append(i)
        reads.append(version[i])
        version[i] = len(order)
        if done[i] == steps:
            return order, reads
        ends[i] += float(times_s[done[i], i])
        done[i] += 1


@given(st.integers(1, 6), st.integers(2, 30), st.integers(0, 100))
def test_asynchronous_updates_match_an_event_loop(workers: int, steps: int, seed: int) -> None:
    times_s = times(workers, steps, seed)
    made, (order, reads) = asynchronous(times_s), brute_force(times_s)
    assert made.worker.tolist() == order
    assert made.read.tolist() == reads


@given(st.integers(1, 6), st.integers(0, 4), st.integers(0, 100))
def test_a_clock_gap_keeps_its_bound(workers: int, bound: int, seed: int) -> None:
    times_s = times(workers, 25, seed)
    made = asynchronous(times_s, bound)
    assert (made.delay >= 0).all()
    np.testing.assert_allclose(made.end_s, np.sort(finish_s(times_s, bound).ravel())[: len(made)])
    steps = np.zeros(workers, dtype=int)
    for place, worker in enumerate(made.worker):
        # When it read, nobody was further behind than the bound.
        behind = np.bincount(made.worker[: made.read[place]], minlength=workers).min()
        assert steps[worker] - behind <= bound
        steps[worker] += 1


@given(st.integers(1, 6), st.integers(0, 8), st.integers(0, 100))
def test_a_refusing_server_accepts_nothing_older(workers: int, oldest: int, seed: int) -> None:
    made = cut_off(times(workers, 25, seed), oldest)
    assert made.delay.max() <= oldest
    assert len(made) <= made.computed


def test_without_a_limit_nothing_is_refused() -> None:
    times_s = times(4, 50, 0)
    free, open_door = asynchronous(times_s), cut_off(times_s, 10**6)
    assert open_door.computed == len(open_door)
    assert free.read.tolist() == open_door.read[: len(free)].tolist()


def test_delays_match_golden_values() -> None:
    def settled(slowdown: list[float]) -> Updates:
        return asynchronous(worker_times_s(Constant(1.0), np.array(slowdown), 3000, np.random.default_rng(0))).settled()

    one_slow = settled([1, 1, 1, 10])
    assert one_slow.delay.mean() == pytest.approx(3, abs=0.01)
    assert one_slow.mean_delay_of(0) == pytest.approx(2.1, abs=0.02)
    assert one_slow.mean_delay_of(3) == pytest.approx(30, abs=0.2)
    assert one_slow.per_s == pytest.approx(3.1, rel=1e-3)
    halves = settled([1 / 3] * 4 + [1] * 4)
    assert halves.mean_delay_of(0) == pytest.approx(13 / 3, abs=0.02)
    assert halves.mean_delay_of(7) == pytest.approx(15, abs=0.1)


def test_rates_and_shares_match_golden_values() -> None:
    slowdown = np.array([1 / 120] * 8 + [1 / 80] * 8)
    for bound, per_s in ((0, 80.0), (10, 80.025), (100, 80.25)):
        made = asynchronous(worker_times_s(Constant(1.0), slowdown, 17_000, np.random.default_rng(0)), bound)
        assert (made.end_s <= 200).sum() / 16 / 200 == pytest.approx(per_s, abs=0.01)
    drawn = worker_times_s(Exponential(1.0), np.ones(8), 2000, np.random.default_rng(0))
    refusing = cut_off(drawn, 0)
    assert len(refusing) / refusing.computed == pytest.approx(0.308, abs=0.01)
