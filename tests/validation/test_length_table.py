"""Published lengths of answers: the mean and the longest of many that laws of few numbers give."""

from __future__ import annotations

import numpy as np

from lockstep.price.generation import Lengths, read_lengths
from published_data import unpackaged

SHARES = ("p10", "p50", "p90", "p99")
NINE_TENTHS = 1.2816
"""Of a standard normal law."""


def _errors(found: Lengths, row: dict[str, str]) -> tuple[float, float, float]:
    """Of the mean, and of the longest of 16 and of 512."""
    said = (float(row[key]) for key in ("mean", "mean_of_max_of_16", "mean_of_max_of_512"))
    told = (found.mean, found.expected_longest(16), found.expected_longest(512))
    one, two, three = (mine / theirs - 1 for mine, theirs in zip(told, said, strict=True))
    return one, two, three


def test_percentiles_have_the_published_mean_and_longest() -> None:
    errors = []
    for row in unpackaged("rl_output_lengths_mlenergy.csv"):
        points = [f"{share}={max(1, int(row[share]))}" for share in SHARES]
        longest = max(int(row["max_bin"]), int(row["p99"]), 1)
        errors.append(_errors(read_lengths(f"percentiles:{','.join(points)},p100={longest}"), row))
    assert len(errors) == 33
    assert np.all(np.median(np.abs(errors), axis=0) < (0.04, 0.1, 0.03))


def test_a_lognormal_law_of_two_numbers_has_the_published_tail() -> None:
    """The mean, and a coefficient of variation from the 50th and the 90th percentile, cut at the longest."""
    errors = []
    for row in unpackaged("rl_output_lengths_mlenergy.csv"):
        sigma = np.log(float(row["p90"]) / max(1.0, float(row["p50"]))) / NINE_TENTHS
        law = f"lognormal:mean={row['mean']},cv={np.sqrt(np.expm1(sigma**2))}"
        errors.append(_errors(read_lengths(law, int(row["max_bin"])), row))
    assert np.all(np.median(np.abs(errors), axis=0) < (0.03, 0.1, 0.1))
