"""Entries: complete, in words that stand alone, each verdict the one that follows from checks with power."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

import lockstep
from lockstep.evidence.claims.deciders.table import ARITHMETIC, LAB, nature_of
from lockstep.evidence.claims.entry import VERDICTS, Case, Check, Entry, Found, Range
from lockstep.evidence.claims.page import SYMBOLS
from lockstep.evidence.claims.pictures import PICTURES
from lockstep.evidence.claims.shelf import canonical, entries, errata, find_entries, search
from lockstep.lab.facts import facts

ROOT = Path(__file__).parents[2]
ITEMS = (
    *(f"T{n}" for n in range(1, 11)), *(f"A.{n}" for n in range(1, 21)), *(f"B.{n}" for n in range(1, 21)),
    *(f"E{n}" for n in range(1, 13)), *(f"C.{n}" for n in range(1, 21)),
)  # fmt: skip
VERDICT_OF = dict(zip(ITEMS[:50], "ffftfffcffctcfatfffftttaccfffacftcftaffffftfctffac", strict=True))
"""First letters of the verdicts of theorems, statements and problems, from the judgement of each by hand."""


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


def test_a_verdict_that_is_changed_is_noticed() -> None:
    """Whatever else an entry with checks of its own states does not follow from what is found."""
    for entry in entries():
        for other in ("true", "false", "conditional", "ambiguous"):
            if (entry.checks or entry.cases) and other != entry.verdict:
                assert entry.derived(as_right(entry)) != other, entry.id


def test_a_right_value_that_is_swapped_with_what_it_excludes_changes_the_verdict() -> None:
    for entry in entries():
        for check in entry.every_check():
            assert check.excluded is not None
            found = as_right(entry) | {check: Found(_inside(check.excluded))}
            assert entry.derived(found) == "undecided", (entry.id, check.what)


def test_errata_are_numbered_by_item_and_run_or_say_why_not() -> None:
    ids = {entry.id for entry in entries()}
    assert {one.of for one in errata()} <= ids
    names = [one.id for one in errata()]
    assert len(set(names)) == len(names)
    for item in ids:
        numbers = [int(one.id.partition("/")[2]) for one in errata() if one.of == item]
        assert numbers == list(range(1, len(numbers) + 1))
    assert [one.id for one in errata() if bool(one.why) == bool(one.check)] == []
    told = [one for one in errata() if one.why]
    assert len(told) <= 12
    assert {one.severity for one in told} <= {"medium", "small"}


def test_texts_stand_alone() -> None:
    """No sentence begins with a word whose noun is elsewhere; every entry says what, why and how to see it."""
    for entry in entries():
        for text in (entry.title, entry.says, entry.true_form, *(case.when for case in entry.cases)):
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
        used = set(re.findall(r"(?<![\w'])([a-zA-Z])(?![\w'])", entry.true_form + " " + entry.says))
        assert (
            used - known - {"a", "A", "b", "e", "f", "i", "j", "t", "u", "w", "x", "y", "W", "E", "H", "I", "N", "q"}
            == set()
        ), entry.id


def test_ids_of_another_collection_are_nowhere() -> None:
    """Statements are stated in full; nothing refers to numbers that only the authors of a private list have."""
    foreign = re.compile(r"(?<![\w.#/-])(?:[FNU]\d{2}|[AB]\d{1,2}-\d{1,2})(?![\w-])")
    root = Path(lockstep.__file__).parent
    files = [
        *root.rglob("*.py"),
        *root.glob("evidence/**/*.toml"),
        *root.glob("evidence/**/*.csv"),
        *root.glob("lab/*.csv"),
    ]
    texts = {file.name: foreign.findall(file.read_text("utf-8")) for file in files}
    assert {name: found for name, found in texts.items() if found} == {}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("theorem 5", "T5"), ("t.5", "T5"), ("Exercise C.6", "C.6"), ("a7", "A.7"), ("A 7", "A.7"), ("problem 14", "B.14"),
     ("b11", "B.11"), ("example 3", "E3"), ("homework 1", "HW1"), ("E12", "E12"), ("claim 3", "A.3"),
     ("true/false 4", "A.4"), ("True or false 12", "A.12")],
)  # fmt: skip
def test_names_are_forgiving(name: str, wanted: str) -> None:
    assert canonical(name) == wanted
    assert wanted in [one.id for one in find_entries(name)]


def test_a_number_that_two_theorems_have_names_both() -> None:
    assert [one.id for one in find_entries("theorem 3")] == ["T3", "M3"]
    assert [one.id for one in find_entries("theorem 11")] == ["M11"]


def test_search_finds_words() -> None:
    assert "B.4" in [one.id for one in search("ring latency")]
    assert search("no such words at all") == ()


def test_every_check_says_how_its_number_comes_about() -> None:
    checks = [check for entry in entries() for check in entry.every_check()]
    assert {nature_of(check) for check in checks} == {"simulated", "solved", "counted", "priced", "arithmetic"}
    for entry in entries():
        if entry.kind in ("theorem", "statement", "proof"):
            assert all(nature_of(check) != "arithmetic" for check in entry.every_check()), entry.id


def test_ranges() -> None:
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


NUMBER = re.compile(r"(?<![\w.])(\d[\d,]*\.?\d*)(?!\w)(?: (%|ms|us|kB|MB|GB|million|billion)(?!\w))?")
UNITS = {"%": 100, "ms": 1e3, "us": 1e6, "kB": 1e-3, "MB": 1e-6, "GB": 1e-9, "million": 1e-6, "billion": 1e-9}
"""Words after a number -> what a value in SI units is multiplied with to give it."""
SMALL = {0.0, 1.0, 2.0, 3.0, 4.0}
"""Numbers of formulas, such as the 2 of a half."""
SPOKEN = [entry for entry in entries() if entry.kind in ("theorem", "statement", "proof")]


def numbers(text: str) -> list[tuple[str, str]]:
    """Each with the unit after it, as written."""
    return [(number.rstrip(".,").replace(",", ""), unit) for number, unit in NUMBER.findall(text)]


def said(entry: Entry) -> str:
    return " ".join((entry.says, entry.because, entry.true_form))


def held(entry: Entry) -> tuple[set[tuple[str, str]], list[float]]:
    """Numbers of an entry that other parts of it write (those of checks with their unit), and values of its checks."""
    checks = [*entry.every_check(), *(one.check for one in errata() if one.of == entry.id and one.check)]
    ranges = [one for check in checks for one in (check.claimed, check.right, check.rival) if one]
    texts = [*(case.when for case in entry.cases), *(check.what for check in checks)]
    texts += [text for one in errata() if one.of == entry.id for text in (one.printed, one.right)]
    problems = [re.sub(r"[=,]", " ", check.by) for check in checks] + [re.sub(r"[=,:]", " ", entry.command)]
    written = {pair for text in texts for pair in numbers(text)}
    arguments = [float(word) for text in problems for word in text.split() if re.fullmatch(r"[\d.]+(e-?\d+)?", word)]
    return written, [v for one in ranges for v in (one.low, one.high) if np.isfinite(v)] + arguments


def untied(entry: Entry, text: str) -> list[str]:
    """Numbers of a text that no check and no erratum of the entry holds, to all digits that are written."""
    written, values = held(entry)

    def tied(number: str, unit: str) -> bool:
        value, half = float(number), 0.5 * 10.0 ** -len(number.partition(".")[2])
        if (value in SMALL and "." not in number) or (number, unit) in written:
            return True
        scaled = [v * scale for v in values for scale in {1, UNITS.get(unit, 1)}]
        scaled += [100 * (1 - v) for v in values if unit == "%"]
        # A whole value has no decimals to be rounded to.
        return any(abs(v - value) <= half * (1 + 1e-9) and ("." not in number or v % 1) for v in scaled)

    return [f"{number} {unit}".strip() for number, unit in numbers(text) if not tied(number, unit)]


@pytest.mark.parametrize("entry", [pytest.param(one, id=one.id) for one in SPOKEN])
def test_numbers_in_texts_are_those_of_checks(entry: Entry) -> None:
    assert untied(entry, said(entry)) == []


TWICE = Path(__file__).with_name("numbers_in_texts.csv")
"""The numbers of every entry's texts a second time, in their order: one that changes in one place has a mistake."""


def typed_twice() -> dict[str, list[str]]:
    with TWICE.open(encoding="utf-8", newline="") as file:
        return {row["id"]: row["numbers"].split() for row in csv.DictReader(file)}


def ordered(text: str) -> list[str]:
    return [f"{number}{unit}" for number, unit in numbers(text)]


def test_numbers_in_texts_stand_in_a_second_place() -> None:
    assert {entry.id: ordered(said(entry)) for entry in entries() if ordered(said(entry))} == typed_twice()


def test_numbers_that_are_changed_in_texts_are_noticed() -> None:
    """Hundred draws of a number in any text, moved by a tenth to a half: the second place differs."""
    draw, kept = np.random.default_rng(2), typed_twice()
    places = [(entry, found) for entry in entries() for found in NUMBER.finditer(said(entry))]
    for place in draw.choice(len(places), 100, replace=False):
        entry, found = places[place]
        number = found[1].rstrip(".,").replace(",", "")
        digits = len(number.partition(".")[2])
        step = max(0.1 * float(number), 10.0**-digits) * draw.choice([-1, 1]) * draw.integers(1, 6)
        moved = f"{abs(float(number) + step):.{digits}f}"
        begin = found.start(1)
        changed = said(entry)[:begin] + moved + said(entry)[begin + len(found[1].rstrip(".,")) :]
        assert moved == number or ordered(changed) != kept[entry.id], (entry.id, number, moved)


def test_every_decider_decides_something() -> None:
    """In a check, or inside another decider."""
    folder = Path(lockstep.__file__).parent / "evidence" / "claims" / "deciders"
    checks = [check for entry in entries() for check in entry.every_check()]
    checks += [one.check for one in errata() if one.check is not None]
    used = {check.by.split()[0] for check in checks}
    for file in folder.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        for name in re.findall(r"^@decides\(.*\)\ndef (\w+)", text, re.MULTILINE):
            assert f"{file.stem}.{name}" in used or len(re.findall(rf"\b{name}\(", text)) > 1, name
