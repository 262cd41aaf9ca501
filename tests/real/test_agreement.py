"""What a run with real software counts, and what fails it."""

from __future__ import annotations

from typing import Any

import pytest
from agreement import Answers, Asker, page

Rows = list[dict[str, Any]]


def begun() -> tuple[Asker, Rows]:
    """A beginner of questions, and the rows that it records."""
    rows: Rows = []
    return Asker(lambda _, row: rows.append(row)), rows


def test_a_difference_without_a_reason_fails_and_is_shown() -> None:
    answers = Answers("numpy", "sums")
    answers.compare("one", 1, 1)
    answers.compare("three", 3, 4)
    answers.compare("four", 4.0, 4.1, within=0.01)
    with pytest.raises(AssertionError, match="2 unexplained\nthree: Lockstep 3, numpy 4"):
        answers.hold()


def test_a_reason_that_explains_nothing_fails() -> None:
    ask, _ = begun()
    with pytest.raises(AssertionError, match="out of date"), ask("numpy", "sums") as answers:
        answers.compare("one", 1, 1, why="numpy rounds")


def test_a_question_without_cases_fails() -> None:
    ask, _ = begun()
    with pytest.raises(AssertionError, match="asked nothing"), ask("numpy", "sums"):
        pass


def test_a_refusal_counts_by_its_words() -> None:
    ask, rows = begun()
    with ask("numpy", "sums") as answers:
        answers.refused("one", ValueError("no sums of text"), "no sums", "text has no sum")
    assert rows[0]["reasons"] == {"text has no sum": 1}
    with pytest.raises(AssertionError, match="other words"), ask("numpy", "sums") as answers:
        answers.refused("one", ValueError("no products"), "no sums", "text has no sum")


def test_rows_of_one_question_stand_once_on_the_page() -> None:
    ask, rows = begun()
    for ours in (1, 2):
        with ask("numpy", "sums") as answers:
            answers.compare("one", ours, 1, why="" if ours == 1 else "two is not one")
    table = [line for line in page(rows, "abc").splitlines() if line.startswith("| numpy")]
    assert len(table) == 1
    assert table[0].endswith("| sums | 2 | 1 | 1 | two is not one (1) |")
