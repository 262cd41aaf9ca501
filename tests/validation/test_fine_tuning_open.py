"""ms-swift's notes: every row is asked or left out by reason, what ran fits, and pairs of one script gain as noted."""

import pytest

from lockstep.check.validation import fine_tuning_open
from lockstep.check.validation.case import Case, read_rows
from lockstep.price.layout import memory

ROWS = len(read_rows(fine_tuning_open.FILE))


def test_every_row_is_predicted_or_excluded_with_a_reason() -> None:
    assert len(fine_tuning_open.time_cases()) == 10
    assert len(fine_tuning_open.memory_cases()) == 14
    assert len(fine_tuning_open.time_cases()) + sum(fine_tuning_open.left_out().values()) == ROWS == 60
    assert len(fine_tuning_open.memory_cases()) + sum(fine_tuning_open.memory_left_out().values()) == ROWS


def test_runs_that_completed_fit_in_memory() -> None:
    for case in fine_tuning_open.memory_cases():
        assert bool(memory(case.job, case.cluster, case.layout.grid()).fits), case.row


@pytest.mark.parametrize(
    ("fast", "slow", "points"),
    [("ft02", "ft03", 0.05), ("ft33", "ft32", 0.15), ("ft35", "ft34", 0.13)],
)
def test_pairs_of_runs_of_one_script_match_the_noted_gain(fast: str, slow: str, points: float) -> None:
    """FP8 against bf16, FlashAttention 3 against 2: the share of the slower one's step, in points."""
    cases = {case.row.split()[0]: case for case in fine_tuning_open.time_cases()}

    def frac(value: str) -> float:
        pair: tuple[Case, Case] = cases[fast], cases[slow]
        times = [case.measured if value == "measured" else case.predict(case) for case in pair]
        return times[0] / times[1]

    assert frac("measured") < 1
    assert frac("predicted") < 1
    assert abs(frac("measured") - frac("predicted")) < points
