"""Entries: complete, in words that stand alone, each verdict the one that follows from checks with power."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lockstep
from claim_pages import SYMBOLS
from lockstep.check.evidence.claims.deciders.table import ARITHMETIC, LAB, nature_of
from lockstep.check.evidence.claims.entry import PARTS, VERDICTS, Case, Check, Entry, Found, Range
from lockstep.check.evidence.claims.pictures import PICTURES
from lockstep.check.evidence.claims.shelf import canonical, entries, errata, find_entries, search
from lockstep.learn.lab.facts import facts

ROOT = Path(__file__).parents[2]
ITEMS = (
    *(f"T{n}" for n in range(1, 11)), *(f"A.{n}" for n in range(1, 21)), *(f"B.{n}" for n in range(1, 21)),
    *(f"E{n}" for n in range(1, 13)), *(f"C.{n}" for n in range(1, 21)),
)  # fmt: skip
VERDICT_OF = dict(zip(ITEMS[:50], "ffftfffcfftttfatfffftttaccfffttstttttstttctfstfttf", strict=True))
"""First letters of the verdicts of theorems, statements and problems, from the judgement of each by hand."""
SECOND_OF = dict(zip((*ITEMS[:10], *ITEMS[30:50]), "fffffffffftftcftfffffftfctffff", strict=True))
"""Of proofs of theorems and of solutions of problems."""


def as_right(entry: Entry) -> dict[Check, Found]:
    """The right value of every check, which is what is found: `test_checks.py`."""
    return {check: Found(_inside(check.right)) for check in entry.every_check()}


def _inside(right: Range) -> float:
    return right.low if np.isfinite(right.low) else right.high


def test_every_item_of_the_chapter_has_one_entry() -> None:
    ids = [entry.id for entry in entries()]
    assert len(set(ids)) == len(ids)
    assert tuple(one for one in ids if one in ITEMS) == ITEMS
    assert {one: entry.verdict[0] for entry in entries() if (one := entry.id) in VERDICT_OF} == VERDICT_OF


def test_the_verdict_follows_from_the_right_values() -> None:
    for entry in entries():
        assert entry.verdict in VERDICTS
        assert entry.derived(as_right(entry)) == entry.verdict, entry.id
        assert bool(entry.every_check()) == (entry.verdict != "missing")


def test_theorems_and_problems_have_a_second_verdict_and_an_argument() -> None:
    """Of the proof or the solution, which follows from its own numbers where it is not true."""
    two = [entry for entry in entries() if entry.second]
    assert {one.id for one in two} == {*SECOND_OF, "HW2"}
    for entry in two:
        assert entry.second is not None
        assert entry.second.verdict[0] == SECOND_OF.get(entry.id, "f"), entry.id
        assert entry.second.checks or entry.second.verdict == "true", entry.id
        assert entry.second.says.endswith(".")
        assert entry.argument.endswith(".")
        assert list(entry.verdicts(entry.verdict)) == list(PARTS[entry.kind])


def test_a_changed_second_verdict_is_noticed() -> None:
    for entry in entries():
        for other in ("true", "false", "conditional"):
            if entry.second and entry.second.checks and entry.second.verdict != other:
                changed = replace(entry, second=replace(entry.second, verdict=other))
                assert changed.derived(as_right(entry)) == "undecided", entry.id


def test_a_changed_verdict_is_noticed() -> None:
    """Whatever else an entry with checks of its own states does not follow from what is found."""
    for entry in entries():
        for other in ("true", "false", "conditional", "ambiguous", "sound"):
            if (entry.checks or entry.cases) and other != entry.verdict:
                assert entry.derived(as_right(entry)) != other, entry.id


def test_swapping_a_right_and_an_excluded_value_changes_the_verdict() -> None:
    for entry in entries():
        for check in entry.every_check():
            assert check.excluded is not None
            found = as_right(entry) | {check: Found(_inside(check.excluded))}
            assert entry.derived(found) == "undecided", (entry.id, check.what)


def test_errata_are_numbered_by_item_and_run_or_give_a_reason() -> None:
    ids = {entry.id for entry in entries()}
    assert {one.of for one in errata()} <= ids
    names = [one.id for one in errata()]
    assert len(set(names)) == len(names)
    for item in ids:
        numbers = [int(one.id.partition("/")[2]) for one in errata() if one.of == item]
        assert numbers == sorted(numbers), "a number that was dropped is not used again"
    assert [one.id for one in errata() if bool(one.why) == bool(one.check)] == []
    told = [one for one in errata() if one.why]
    assert len(told) <= 12
    assert {one.severity for one in told} <= {"medium", "small"}


def test_texts_are_understandable_on_their_own() -> None:
    """No sentence begins with a word whose noun is elsewhere; every entry says what, why and how to see it."""
    for entry in entries():
        second = [entry.second.says] if entry.second else []
        for text in (entry.title, entry.says, entry.true_form, *second, *(case.when for case in entry.cases)):
            assert not re.match(r"(It|This|That|They|These|Inside|Outside)\b(?! (?:is so|depends|a critical))", text), (
                text
            )
        assert entry.says.endswith((".", "?"))
        assert entry.verdict == "missing" or (entry.command.startswith("lockstep ") and entry.because)
        assert entry.picture == "" or entry.picture in PICTURES
        assert set(entry.see) <= {one.id for one in entries()}
        assert not entry.learn or (ROOT / "docs" / entry.learn).exists()
    for fact in facts():
        assert not re.match(r"(It|This|That|They|The bound|Inside)\b(?! on)", fact.statement), fact.statement


def test_symbols_have_a_legend() -> None:
    known = {one.strip() for symbols, _ in SYMBOLS for one in re.split(r"[,/]", symbols)}
    for entry in entries():
        second = entry.second.says if entry.second else ""
        used = set(re.findall(r"(?<![\w'])([a-zA-Z])(?![\w'])", f"{entry.true_form} {entry.says} {second}"))
        assert (
            used - known - {"a", "A", "b", "e", "f", "i", "j", "t", "u", "w", "x", "y", "W", "E", "H", "I", "N", "q"}
            == set()
        ), entry.id


def test_ids_of_another_collection_do_not_appear() -> None:
    """Statements are stated in full; nothing refers to numbers that only the authors of a private list have."""
    foreign = re.compile(r"(?<![\w.#/-])(?:[FNU]\d{2}|[AB]\d{1,2}-\d{1,2})(?![\w-])")
    root = Path(lockstep.__file__).parent
    files = [
        *root.rglob("*.py"),
        *root.glob("check/evidence/**/*.toml"),
        *root.glob("check/evidence/**/*.csv"),
        *root.glob("learn/lab/*.csv"),
    ]
    texts = {file.name: foreign.findall(file.read_text("utf-8")) for file in files}
    assert {name: found for name, found in texts.items() if found} == {}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("theorem 5", "T5"), ("t.5", "T5"), ("Exercise C.6", "C.6"), ("a7", "A.7"), ("A 7", "A.7"), ("problem 14", "B.14"),
     ("b11", "B.11"), ("example 3", "E3"), ("homework 1", "HW1"), ("E12", "E12"), ("claim 3", "A.3"),
     ("true/false 4", "A.4"), ("True or false 12", "A.12")],
)  # fmt: skip
def test_item_names_are_matched_leniently(name: str, wanted: str) -> None:
    assert canonical(name) == wanted
    assert wanted in [one.id for one in find_entries(name)]


def test_an_ambiguous_theorem_number_names_both_theorems() -> None:
    assert [one.id for one in find_entries("theorem 3")] == ["T3", "M3"]
    assert [one.id for one in find_entries("theorem 11")] == ["M11"]


def test_search_finds_items_by_words() -> None:
    assert "B.4" in [one.id for one in search("ring latency")]
    assert search("no such words at all") == ()


def test_every_check_states_the_origin_of_its_number() -> None:
    checks = [check for entry in entries() for check in entry.every_check()]
    assert {nature_of(check) for check in checks} == {"simulated", "solved", "counted", "priced", "arithmetic"}
    for entry in entries():
        if entry.kind in ("theorem", "statement", "proof"):
            assert all(nature_of(check) != "arithmetic" for check in entry.every_check()), entry.id


def test_ranges_are_parsed_and_compared() -> None:
    assert Range.read("0.149460").half_digit == pytest.approx(5e-7)
    assert Range.read(7).half_digit == 0
    assert Range.read("<= 0.5").gap(Range.read("0.7")) == pytest.approx(0.2)
    assert Range.read(">= 2").gap(Range.read("3")) == 0
    assert Range.read("<= 1").gap(Range.read(">= 1.5")) == pytest.approx(0.5)
    assert Range.read("<= 1").away(3) == 2


def _check(claimed: object, right: object) -> Check:
    return Check("", "= 1", Range.read(claimed), Range.read(right))


@pytest.mark.parametrize(
    ("claims", "value", "verdict"),
    [((1, 2), 2.0, "false"), ((2, 2), 2.0, "true"), ((1, 2), 1.0, "undecided"), ((2, 2), 5.0, "undecided")],
)
def test_verdicts_derive_from_values(claims: tuple[int, int], value: float, verdict: str) -> None:
    entry = Entry(id="X", kind="theorem", title="", says="", verdict="", checks=(check := _check(*claims),))
    assert entry.derived({check: Found(value)}) == verdict
    assert entry.derived({}) == "undecided"


def test_cases_make_a_verdict_conditional_or_ambiguous() -> None:
    right, wrong = _check(2, 2), _check(1, 2)
    cases = (Case("here", "true", (right,)), Case("there", "false", (wrong,)))
    found = {right: Found(2.0), wrong: Found(2.0)}
    for readings, verdict in ((False, "conditional"), (True, "ambiguous")):
        entry = Entry(id="X", kind="proof", title="", says="", verdict="", cases=cases, readings=readings)
        assert entry.derived(found) == verdict
    mixed = Entry(id="X", kind="proof", title="", says="", verdict="", checks=(right, wrong))
    assert mixed.derived(found) == "undecided"


def test_right_values_are_typed_and_not_computed() -> None:
    """A check's right value is a number in a file; what finds it is a run, a decider or arithmetic."""
    for entry in entries():
        for check in entry.every_check():
            assert np.isfinite([check.right.low, check.right.high]).any()
            assert check.by.startswith((LAB, ARITHMETIC)) or "." in check.by.split()[0]


def test_every_decider_decides_something() -> None:
    """In a check, or inside another decider."""
    folder = Path(lockstep.__file__).parent / "check" / "evidence" / "claims" / "deciders"
    checks = [check for entry in entries() for check in entry.every_check()]
    checks += [one.check for one in errata() if one.check is not None]
    used = {check.by.split()[0] for check in checks}
    for file in folder.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        for name in re.findall(r"^@decides\(.*\)\ndef (\w+)", text, re.MULTILINE):
            assert f"{file.stem}.{name}" in used or len(re.findall(rf"\b{name}\(", text)) > 1, name
