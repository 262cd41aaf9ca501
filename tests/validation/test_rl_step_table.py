"""Published steps of reinforcement learning beside what a step answers, on a sample of the rows.

They took 1.5 times as long in the median, as what software does between phases is not counted, which no row shows; so
a step is held to being no more than MOST_LONGER of the published one, and no less than LEAST in the median.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lockstep.check.validation.rl_steps import cut_mean, rl_step_rows
from lockstep.price.generation import read_lengths
from published_data import unpackaged

SAMPLED = 6
MOST_LONGER, LEAST = 1.3, 0.5
BOTH = {(True, "0"), (False, "1")}


def test_steps_are_a_lower_bound_of_published_ones() -> None:
    rows = unpackaged("rl_nemo_rl.csv")
    found = rl_step_rows(rows[::SAMPLED])
    assert len(found) >= 8
    ratios = [one.step.step_time_s / one.measured_s for one in found]
    assert max(ratios) < MOST_LONGER
    assert LEAST < np.median(ratios) <= 1.0


def test_the_faster_placement_is_the_published_one() -> None:
    """Pairs of rows that differ in the placement alone: on the same devices in turn, or apart and one step stale."""
    rows = unpackaged("rl_nemo_rl.csv")
    same = ("release", "algorithm", "model", "system", "precision", "n_gpus")
    pairs = [
        (one, other)
        for one, other in itertools.combinations(rows, 2)
        if all(one[key] == other[key] for key in same)
        and {(row["placement"] == "colocated", row["steps_off_policy"]) for row in (one, other)} == BOTH
    ]
    found = {one.name: one for one in rl_step_rows(row for pair in pairs for row in pair)}
    compared = [(found[a["row_id"]], found[b["row_id"]]) for a, b in pairs if {a["row_id"], b["row_id"]} <= {*found}]
    assert len(compared) == 10
    right = [(a.measured_s < b.measured_s) == (a.step.step_time_s < b.step.step_time_s) for a, b in compared]
    assert sum(right) >= 0.9 * len(compared)


@pytest.mark.parametrize(("mean", "most"), [(1000, 4096), (3000, 3996), (200, 100_000)])
def test_means_after_a_cut(mean: int, most: int) -> None:
    """The closed form against the integral over the law's quantiles."""
    assert read_lengths(f"lognormal:mean={mean},cv=1", most).mean == pytest.approx(cut_mean(mean, most), rel=1e-3)
