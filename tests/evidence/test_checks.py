"""Every check of items and every erratum, each decider run once.

One test for each experiment of the lab and each file of deciders: all that rests on it comes out as known, and what it
excludes is told from the right value. `test_entries.py` derives the verdicts from right values, which is then enough.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from lockstep.check.evidence.claims.decide import Bench
from lockstep.check.evidence.claims.deciders.table import ARITHMETIC, LAB, lab_name
from lockstep.check.evidence.claims.entry import Check, Found, Range
from lockstep.check.evidence.claims.shelf import entries, errata
from lockstep.learn.lab import EXPERIMENTS
from predicted_once import experiment


def source(by: str) -> str:
    """What runs: an experiment, a file of deciders, or arithmetic."""
    if by.startswith(LAB):
        return lab_name(by)[0]
    return "arithmetic" if by.startswith(ARITHMETIC) else by.partition(".")[0]


def by_source() -> dict[str, list[Check]]:
    found = defaultdict(list)
    for check in [check for entry in entries() for check in entry.every_check()]:
        found[source(check.by)].append(check)
    for one in errata():
        if one.check is not None:
            assert one.check.refutes, one.id  # What is right contradicts what is printed.
            found[source(one.check.by)].append(one.check)
    return found


CHECKS = by_source()


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_checks_accept_the_right_value_and_exclude_the_wrong_one(name: str) -> None:
    bench = Bench()
    if name in EXPERIMENTS:
        bench.answers[name] = experiment(name)
    for check in CHECKS[name]:
        found = bench.find(check.by)
        assert check.as_known(found), (check.what, check.by, found)
        assert check.has_power(found), (check.what, check.by, check.allowed(found))
        assert not (check.refutes and check.agrees(found)), check.what
        excluded, right = check.excluded, check.right
        assert excluded is not None
        wrong = excluded.high if excluded.high < right.low else excluded.low
        assert not check.as_known(Found(wrong, found.error)), check.what
        if right.low == right.high and check.allowed(found) > 0:
            # A right value that is changed by three times what is allowed is noticed, in either direction.
            moved = [right.low + sign * 3 * check.allowed(found) for sign in (-1, 1)]
            changed = [Check(check.what, check.by, check.claimed, Range(at, at, right.half_digit)) for at in moved]
            assert not any(one.as_known(found) for one in changed), check.what


def test_verdicts_do_not_depend_on_random_numbers() -> None:
    """Right values are those of a law, not of one seed."""
    bench = Bench(7)
    for name in ("data-parallel", "learning-rate-scaling", "tolerable-delay"):
        for check in CHECKS[name]:
            assert check.as_known(bench.find(check.by)), check.what


def test_a_check_omitted_by_an_experiment_is_not_found() -> None:
    found = Bench().find("lab objectives: no such check")
    check = next(one for checks in CHECKS.values() for one in checks)
    assert not check.as_known(found)
