"""`tools/claim_slices.py`: what of an experiment belongs to its named checks, on a file where it is plain to see."""

from __future__ import annotations

import pytest

import claim_mutants
import claim_slices
from lockstep.check.evidence.claims.deciders.table import found_in
from lockstep.check.evidence.claims.entry import Check as ClaimCheck
from lockstep.check.evidence.claims.entry import Range
from lockstep.learn.lab import ALWAYS, Check, Findings

FILE = f"{claim_mutants.EXPERIMENTS}/staleness/delay_floor.py"
LINES = (claim_mutants.SOURCE / FILE).read_text().splitlines()


def belongs(words: str) -> bool:
    """Whether the first place of that text in the file belongs to a check that an item or erratum names."""
    line = next(number for number, text in enumerate(LINES, 1) if words in text)
    column = LINES[line - 1].index(words)
    return claim_mutants.read_by(FILE).covers((line, column, line, column + len(words)))


@pytest.mark.parametrize(
    "words",
    [
        "SLOW * largest_stable_step(delay)",
        "math.log(rate(step, delay))",
        "1 / (2 * (1 + delay))",
        "exact[-1] / exact[0]",
    ],
)
def test_inputs_of_a_value_belong_to_its_check(words: str) -> None:
    assert belongs(words)


@pytest.mark.parametrize(
    "words",
    [
        "1.96 * error",
        "least=0",
        "2000",
        "100_000",
        "tolerance=1.0",
        "float(1 + delays[-1]) ** 2",
        "log_y=True",
        "strict=True",
    ],
)
def test_pictures_inputs_laws_and_guards_do_not_belong_to_a_check(words: str) -> None:
    assert not belongs(words)


def test_callers_are_followed_to_the_arguments_of_a_check() -> None:
    ways = claim_slices.made_at(claim_mutants.find_experiment("delay-floor"), claim_mutants.SOURCE / FILE)[
        "slow root minus 1 - a mu, largest over all delays"
    ]
    assert {tuple(name for name, _ in way) for way in ways} == {("_slow_roots", "run")}


@pytest.mark.parametrize(
    ("before", "after"),
    [("a < b", "True"), ("a + 1", "((a + 1) * 1000)"), ("x += 2", "pass"), ("min", "(lambda *given, **named: 0 *")],
)
def test_drastic_mutants_change_the_kind_of_an_expression(before: str, after: str) -> None:
    assert any(one.startswith(after) for one in claim_slices.drastic(before))


def test_a_mutant_is_relevant_where_a_number_depends_on_it() -> None:
    chosen = {one.before: one for one in claim_mutants.mutants(True, ["delay_floor"])}
    assert claim_mutants.is_read(chosen["exact[-1] / exact[0]"])


def test_tolerances_of_the_lab_are_not_errors_of_a_simulation() -> None:
    check = Check("edge", 1.0, 0.99, standard_error=0.001, tolerance=0.5, holds=ALWAYS)
    found = found_in(Findings((check,)), "edge")
    assert (found.value, found.error) == (0.99, pytest.approx(0.004))


def test_a_run_that_breaks_a_law_decides_nothing() -> None:
    edge, floor = (Check(what, 1.0, got, holds=ALWAYS) for what, got in (("edge", 1.0), ("floor", 2.0)))
    claim = ClaimCheck("edge", "lab x: edge", Range.read(2), Range.read(1))
    assert claim.as_known(found_in(Findings((edge,)), "edge"))
    assert not claim.as_known(found_in(Findings((edge, floor)), "edge"))
    assert "floor" in found_in(Findings((edge, floor)), "edge").doubt
