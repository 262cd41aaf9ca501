"""Published steps of reinforcement learning beside what a step answers, on a sample of the rows.

They took 1.4 times as long in the median, as what software does between phases is not counted, which no row shows; so
a step is held to being no more than MOST_LONGER of the published one, and no less than LEAST in the median.
"""

from __future__ import annotations

import numpy as np
import pytest

from lockstep.check.validation.rl_steps import cut_mean, rl_step_rows
from lockstep.price.generation import read_lengths
from published_data import unpackaged

SAMPLED = 6
MOST_LONGER, LEAST = 1.3, 0.5


def test_steps_are_a_lower_bound_of_published_ones() -> None:
    rows = unpackaged("rl_nemo_rl.csv")
    found = rl_step_rows(rows[::SAMPLED])
    assert len(found) >= 8
    ratios = [one.step.step_time_s / one.measured_s for one in found]
    assert max(ratios) < MOST_LONGER
    assert LEAST < np.median(ratios) <= 1.0


@pytest.mark.parametrize(("mean", "most"), [(1000, 4096), (3000, 3996), (200, 100_000)])
def test_means_after_a_cut(mean: int, most: int) -> None:
    """The closed form against the integral over the law's quantiles."""
    assert read_lengths(f"lognormal:mean={mean},cv=1", most).mean == pytest.approx(cut_mean(mean, most), rel=1e-3)
