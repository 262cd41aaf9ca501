"""Quantiles of Student's t against scipy, and the summary of a sample."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from lockstep.simulate.play import Sample
from lockstep.simulate.play.sample import student_t


@pytest.mark.parametrize("freedom", [1, 2, 5, 6, 10, 30, 1000])
@pytest.mark.parametrize("probability", [0.9, 0.975, 0.995])
def test_student_t_quantiles_match_scipy(freedom: int, probability: float) -> None:
    assert student_t(probability, freedom) == pytest.approx(scipy.stats.t.ppf(probability, freedom), rel=1.5e-2)
    if freedom >= 10:
        assert student_t(probability, freedom) == pytest.approx(scipy.stats.t.ppf(probability, freedom), rel=2e-4)


def test_a_sample_summary_matches_scipy() -> None:
    sample = Sample(np.arange(1.0, 102.0))
    summary = sample.to_dict()
    assert (summary["draws"], summary["mean_s"], summary["p50_s"], summary["p95_s"]) == (101, 51.0, 51.0, 96.0)
    interval = scipy.stats.t.interval(0.95, 100, 51.0, sample.std_s / np.sqrt(101))
    assert summary["ci95_s"] == pytest.approx(interval, rel=1e-6)
    assert Sample(np.ones(1)).interval_s() == (1.0, 1.0)


def test_a_sample_is_printed_on_one_line() -> None:
    printed = repr(Sample(np.array([1e-3, 3e-3])))
    assert printed.startswith("Sample: 2 draws, mean 2 ms (95 % interval ")
    assert "\n" not in printed
