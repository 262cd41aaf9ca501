"""Right values of checks that no closed form gives, against `oracles.py`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from evidence.oracles import Network, local_updates, raced, synchronous_pace
from lockstep.check.evidence.claims.deciders.rounds import local_run
from lockstep.check.evidence.claims.deciders.steps import curvature, race, trained_loss
from lockstep.check.evidence.claims.exercise_pictures import NOISY

COURSE = {
    "workers": 16, "law": "uniform:low=0.95,high=1.05", "slow_frac": 0.1, "slow": 5, "steps": 40, "condition": 30,
    "target": 0.01, "low": 0.05, "high": 1.6, "sizes": 24,
}  # fmt: skip
"""Of the checks of A.6."""
DRAWS = 20


@pytest.mark.parametrize("gap", [0, 3, 20])
def test_race_times_match_an_event_loop(gap: int) -> None:
    updates, seconds = raced(gap, 16, 0.1, 5.0, 0.01, 24, 40, DRAWS)
    for what, expected in (("updates", updates), ("s", seconds)):
        found = race(gap, what, DRAWS, 0, **COURSE)
        error = np.std(found, ddof=1) * np.sqrt(2 / DRAWS)
        assert abs(found.mean() - expected) <= 5 * error + 1e-9, what


def test_synchronous_workers_run_at_the_pace_of_the_expected_slowest() -> None:
    assert synchronous_pace(16, 0.1, 5.0) == pytest.approx(0.2699, abs=5e-5)


@pytest.mark.parametrize(("loss", "step", "steps"), [("squared", 0.03, 3000), ("cross-entropy", 0.2, 400)])
def test_network_training_matches_automatic_differentiation(loss: str, step: float, steps: int) -> None:
    torch.set_num_threads(1)
    network = Network(loss)
    for number in (0, steps):
        network.train(step, number)
        assert trained_loss(loss, step, number) == pytest.approx(network.loss().item(), rel=1e-9)
        assert curvature(loss, step, number) == pytest.approx(network.curvature(), rel=1e-4)


@pytest.mark.parametrize(("period", "step", "steps", "seconds"), [(1, 0.566, 33.9, 5.61), (4, 0.4, 40.9, 3.37),
                                                                   (16, 0.2, 67.0, 4.01)])  # fmt: skip
def test_local_runs_match_a_plain_loop(period: int, step: float, steps: float, seconds: float) -> None:
    """The loop also gives the right values of the checks; it draws other numbers, so the two differ by their errors."""
    looped = local_updates(period, step, 4000)
    assert looped == pytest.approx((steps, seconds), rel=0.02)
    for what, right in (("steps", steps), ("s", seconds)):
        found = local_run(period, step, what, 1000, 3, **NOISY)
        assert abs(found.mean() - right) <= 5 * found.std(ddof=1) / np.sqrt(1000)


def test_local_runs_that_do_not_converge_take_infinite_time() -> None:
    assert np.isinf(local_run(4, 0.001, "s", 5, 0, **NOISY)).all()
