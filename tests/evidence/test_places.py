"""What the text is said to claim is what it prints: every claimed value has its lines, and errata are those of cards.

Who read the text line by line judged every claimed value and erratum as printed, following, said otherwise or nowhere.
Those tables may not be packaged: they are read from the folder that the environment variable LOCKSTEP_REFERENCE names.
"""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from lockstep.check.evidence.claims.entry import Check, Entry, Range
from lockstep.check.evidence.claims.shelf import SHELF, entries, errata

LINES = re.compile(r"guide \d{1,2}\.\d|(?:(?:first|second|third) text )?\d{2,4}(?:-\d{3,4})?")
FOLDER = os.environ.get("LOCKSTEP_REFERENCE")
TABLES = ("printed-statements.csv", "printed-proofs.csv", "printed-exercises.csv")
SAID = {
    ("A.5", "1"): "the sentence read of one step; the card says which lines deny it",
    ("A.9", ">= 0"): "the sentence of the exercise; the card says which line denies it",
    ("A.20", "0"): "now of plain steps, which line 1230 has; momentum and Adam are claimed to differ",
    ("B.4", "0.0398"): "line 1336 as the solution prints it; the card says which lines allow for latency",
    ("C.5", "7.55e+08"): "now of the 12 layers of a stage that the line takes",
    ("C.18", "23.45"): "now over the one adapter a node that lines 2538 and 2544 give",
    ("E3", "0.65"): "now the time in which some device idles, as line 469 explains it",
    ("HW2", "0"): "now the errors of the limits, which the text has right",
    ("E11", "4"): "printed in line 542; the card says that 17 h stand in line 546",
    ("E12", "8"): "pipelines, as line 550 counts them after its 16 replicas",
    ("T3", "<= 1"): "now at a step inside the hypothesis",
    ("T4", ">= 245"): "an order; the card says that its constant is ours",
    ("T4", ">= 670"): "an order; the card says that its constant is ours",
    ("T6", "1"): "now of the critical batch, which the formula has without noise",
    ("T6/1", "1"): "the same",
    ("A.8/2", "62"): "reworded: times of a step, not days",
    ("A.8/7", "3.8"): "of the quotient that the line prints",
    ("B.17/8", "0.0109"): "of the bytes and the rate that the line prints",
}  # fmt: skip
"""Values that the tables call otherwise and that the shelf still claims, each with its condition."""


def claimed(entry: Entry) -> list[Check]:
    """Checks of values that the text claims."""
    return [*entry.claimed_checks(), *(check for check in entry.truths if check.refutes)]


def test_every_claimed_value_has_the_lines_that_print_it() -> None:
    for entry in entries():
        for check in claimed(entry):
            places = check.at.split(", ")
            assert all(LINES.fullmatch(place) for place in places), (entry.id, check.what, check.at)
    for one in errata():
        assert all(LINES.fullmatch(place) for place in one.at.split(", ")), one.id


def test_values_that_the_text_does_not_claim_have_no_lines() -> None:
    for entry in entries():
        for check in entry.truths:
            assert bool(check.at) == check.refutes, (entry.id, check.what)


def test_every_printed_number_that_a_card_contradicts_is_an_erratum() -> None:
    """One list of one fact: of those that the text itself does not call false, and that no other case has right."""
    for entry in entries():
        known = {one.check.by for one in errata() if one.of == entry.id and one.check}
        in_a_case = {check.by for case in entry.cases for check in case.checks}
        wrong = {check.by for check in claimed(entry) if check.refutes and not check.follows} - in_a_case
        assert entry.printed == "false" or wrong <= known, entry.id


def test_an_erratum_repeats_no_number_of_its_card() -> None:
    with (SHELF / "errata.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["claimed"]]
    cards = {entry.id: [check for check in entry.every_check() if check.refutes] for entry in entries()}
    for row in rows:
        same = [check for check in cards[row["id"].partition("/")[0]] if check.by == row["by"]]
        assert Range.read(row["claimed"]).low not in [check.claimed.low for check in same], row["id"]


@cache
def judged() -> list[dict[str, str]]:
    """All rows of the tables but those of statements; skips the test where the folder is not named."""
    if not FOLDER:
        pytest.skip("LOCKSTEP_REFERENCE does not name a folder of judged values")
    texts = [(Path(FOLDER) / name).read_text(encoding="utf-8") for name in TABLES]
    rows = [row for text in texts for row in csv.DictReader(text.splitlines())]
    return [row for row in rows if row["what"] != "says" and not row["claimed"].startswith("(")]


def _name(row: dict[str, str]) -> tuple[str, str]:
    """The item or erratum of a row, and its value in one spelling."""
    erratum = row["what"] if row["what"].startswith(f"{row['id']}/") else row["id"]
    return erratum, _value(row["claimed"])


def _value(text: str) -> str:
    sign, number = (text[:2] + " ", text[2:]) if text[:2] in ("<=", ">=") else ("", text)
    return f"{sign}{float(number):g}" if number.strip() else ""


def _written(one: Range) -> str:
    if one.low == one.high:
        return f"{one.low:g}"
    return f"<= {one.high:g}" if one.low == -float("inf") else f">= {one.low:g}"


def _on_the_shelf() -> dict[tuple[str, str], list[str]]:
    """Lines of each value that the shelf has the text claim."""
    found: dict[tuple[str, str], list[str]] = {}
    for entry in entries():
        for check in claimed(entry):
            found.setdefault((entry.id, _written(check.claimed)), []).append(check.at)
    for one in errata():
        found.setdefault((one.id, _written(one.check.claimed) if one.check else ""), []).append(one.at)
    return found


def test_no_value_is_one_that_the_text_says_otherwise_or_nowhere() -> None:
    right = Counter(_name(row) for row in judged() if row["verdict"] in ("printed", "follows"))
    wrong = {_name(row) for row in judged()} - set(right)
    shelf = {name: len(places) for name, places in _on_the_shelf().items()}
    assert sorted(name for name in wrong & set(shelf) if name not in SAID) == []
    assert sorted(name for name in SAID if name not in shelf) == []


def test_lines_are_those_where_the_value_was_read() -> None:
    shelf = _on_the_shelf()
    for row in judged():
        if row["verdict"] in ("printed", "follows") and (places := shelf.get(_name(row))):
            first = re.split(r"[;-]", row["place"].partition(":")[2])[0]
            assert any(first in at for at in places), (row["id"], row["what"], places)
