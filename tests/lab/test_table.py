"""The table experiment -> tests: every experiment has tests of its own, and one of them can be run in seconds."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from lab.table import experiments_of
from lockstep.learn.lab import EXPERIMENTS

FEWEST = 4
"""Tests that run every experiment: verdict, words, numbers, and its extremes or settings around the defaults."""


class _Collected:
    """Keeps what pytest finds."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.items = list(items)


@cache
def collected() -> tuple[pytest.Item, ...]:
    """All tests of this folder."""
    found = _Collected()
    folder = str(Path(__file__).parent)
    assert pytest.main([folder, "--collect-only", "-q", "-p", "no:cacheprovider"], [found]) == 0
    return tuple(found.items)


def test_every_experiment_has_its_own_tests() -> None:
    about = Counter(name for item in collected() for name in experiments_of(item))
    assert set(about) == set(EXPERIMENTS)
    assert min(about.values()) >= FEWEST
    assert max(about.values()) < len(collected()) / 10


def test_experiments_of_a_test_follow_from_its_parameters_and_source() -> None:
    about = {item.nodeid.split("::", 1)[-1]: experiments_of(item) for item in collected()}
    assert about["test_theory_and_simulation_agree[hogwild]"] == {"hogwild"}
    assert about["test_every_fact_is_confirmed_or_contradicted[local.weighted-optimum]"] == {"local-bias"}
    assert about["test_a_limit_is_not_checked_before_the_rounds_converge"] == {"local-bias"}
    assert about["test_the_best_period_of_the_verdict_is_the_fastest_of_the_table"] == {"local-period"}
    assert not about["test_combined_conditions_must_both_hold"]
