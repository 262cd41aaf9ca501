"""Plain descent: the printed laws that are false, on runs that can be written down."""

from __future__ import annotations

import pytest

import lockstep
from lockstep.learn.lab.experiments.descent import sgd_bound


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


def test_the_bound_is_distance_over_steps_plus_noise_over_the_batch() -> None:
    """R^2 / (2 a T) + a s^2 / (2 B): R = 1 on the quadratic, 3 in every of the four directions of Huber's loss."""
    found = lockstep.converge(
        "sgd-bound", {"batches": (2, 4), "steps_of_smoothness": (0.1, 0.5), "steps": 20, "trials": 50}
    )
    checks = {one.what: one for one in found.checks}
    for name, distance, directions in (("quadratic", 1.0, 1), ("huber", 3.0, 4)):
        for batch in (2, 4):
            for step in (0.1, 0.5):
                check = checks[f"gap on {name}, batch {batch}, a L = {step:g}"]
                bound = directions * (distance**2 / (2 * step * 20) + step / (2 * batch))
                assert check.expected == pytest.approx(bound)
                assert check.relation == "at most"
                assert check.got > 0
    assert checks["noise grows with the batch: floor at 4 over that at 2"].expected == 2.0
    assert checks["noise term L s^2 / (2 B T), after 400 steps"].expected == pytest.approx(1 / (2 * 2 * 400))
    dashed = {one.label: one for one in found.curves if one.theory}
    assert set(dashed) == {"batch 2, bound", "batch 4, bound"}
    for batch in (2, 4):
        values = [1 / (2 * step * 20) + step / (2 * batch) for step in (0.1, 0.5)]
        assert dashed[f"batch {batch}, bound"].y == pytest.approx(values)
