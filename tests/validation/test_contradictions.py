"""Rows that contradict another one: found by the peak rate alone, in the one pair of one table that does."""

from dataclasses import replace

from lockstep.check.validation import TABLES
from lockstep.check.validation.contradictions import contradicted

PAIR = (
    "7 h8192 l48 tp2 pp8 dp32 mb2 zero0 1f1b recompute-full",
    "8 h8192 l48 tp2 pp8 dp32 mb3 zero0 1f1b recompute-full",
)


def test_only_one_vtrain_pair_is_contradictory() -> None:
    found = {name: contradicted(table.cases()) for name, table in TABLES.items() if table.quantity == "step_time_s"}
    assert {name: rows for name, rows in found.items() if rows} == {"vtrain_a100_multi": PAIR}


def test_a_faster_run_with_fewer_sequences_is_not_contradictory() -> None:
    cases = [case for case in TABLES["vtrain_a100_multi"].cases() if case.row in PAIR]
    few, many = cases
    assert contradicted([replace(few, measured=0.9 * few.measured), many]) == ()
    assert contradicted([few]) == ()
