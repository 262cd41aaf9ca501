"""Plain descent: the printed laws that are false, on runs that can be written down."""

from __future__ import annotations

import pytest

from lockstep.converge.experiments.descent import sgd_bound


def test_the_printed_bounds_fail_on_runs_without_noise() -> None:
    """x <- (1 - a) x from 1: 0.99^10 is far above 2 / 10, and a = 2 swings between 1 and -1 for ever."""
    slow, swinging = sgd_bound._false_laws()
    assert slow.got == pytest.approx(0.99**20 / 2)
    assert slow.expected == pytest.approx(2 / 10)
    assert swinging.got == pytest.approx(1 / 2)
    assert swinging.expected == pytest.approx(2 / 100)
    for one in (slow, swinging):
        assert one.ok
        assert one.false_law
        assert one.relation == "at most"
        assert one.holds.example


def test_the_floors_follow_the_batch() -> None:
    """a s^2 / (2 B (2 - a L)) at a L = 1/2: 1 / (6 B)."""
    settings = sgd_bound.Settings(trials=400)
    for batch in (1, 8):
        check = sgd_bound._floor_check(batch, settings, seed=0)
        assert sgd_bound._floor(batch) == check.expected == pytest.approx(1 / (6 * batch))
        assert check.ok
