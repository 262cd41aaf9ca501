"""What choosing by prediction costs: counted by hand on made rows."""

from dataclasses import replace

import pytest

from lockstep.check.validation import TABLES
from lockstep.check.validation.case import Case
from lockstep.check.validation.regret import LEAST, regret


def rows() -> list[Case]:
    """Three layouts of one job."""
    like = TABLES["vtrain_a100_single"].cases()[0]
    same = [case for case in TABLES["vtrain_a100_single"].cases() if case.job == like.job]
    return same[:LEAST]


def measured(seconds: list[float]) -> list[Case]:
    return [replace(case, measured=each) for case, each in zip(rows(), seconds, strict=True)]


def test_the_layout_predicted_fastest_is_compared_with_the_best() -> None:
    found = regret(measured([1.2, 1.0, 2.0]), [0.5, 1.0, 3.0])
    assert found is not None
    assert (found.questions, found.mean_frac, found.robust_mean_frac) == (1, pytest.approx(0.2), pytest.approx(0.2))
    right = regret(measured([1.2, 1.0, 2.0]), [2.0, 1.0, 3.0])
    assert right is not None
    assert right.max_frac == right.robust_max_frac == 0


def test_two_layouts_are_too_few_for_a_choice_and_repeats_count_once() -> None:
    cases = measured([1.2, 1.0, 2.0])
    assert regret(cases[:2], [1.0, 1.0]) is None
    assert regret([*cases[:2], cases[0]], [1.0, 1.0, 1.0]) is None
    again = replace(cases[1], measured=0.8)
    found = regret([*cases, again], [0.5, 1.0, 3.0, 1.0])
    assert found is not None
    assert found.mean_frac == pytest.approx(1.2 / 0.8 - 1)
