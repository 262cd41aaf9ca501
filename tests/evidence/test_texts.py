"""Texts of items: their numbers are those of checks, and all of their words are those that a person has read.

`texts_as_read.csv` has a line for each item: the numbers of its texts in their order, typed a second time, and a digest
of all of its words, verdicts and checks, errata included. Who changes a text reads it again beside its source and its
checks, and puts the line that the test prints into the file.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lockstep.check.evidence.claims.entry import VERDICTS, Entry, Erratum
from lockstep.check.evidence.claims.shelf import entries, errata

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
    second = entry.second.says if entry.second else ""
    return " ".join((entry.says, entry.because, entry.true_form, entry.argument, second)).rstrip()


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
def test_numbers_in_texts_equal_those_of_the_checks(entry: Entry) -> None:
    assert untied(entry, said(entry)) == []


READ = Path(__file__).with_name("texts_as_read.csv")
TEXTS = ("title", "says", "because", "true_form", "argument")


def ordered(text: str) -> list[str]:
    return [f"{number}{unit}" for number, unit in numbers(text)]


def digest(entry: Entry, wrong: list[Erratum]) -> str:
    """Of all words, verdicts and checks of an item and its errata."""
    words = [getattr(entry, name) for name in TEXTS] + [entry.verdict, entry.printed]
    words += [text for case in entry.cases for text in (case.when, case.verdict)]
    words += [entry.argument, *((entry.second.says, entry.second.verdict) if entry.second else ())]
    checks = [*entry.every_check(), *(one.check for one in wrong if one.check)]
    words += [str(part) for one in checks for part in (one.what, one.by, one.claimed, one.right, one.rival)]
    words += [text for one in checks for text in (one.at, one.follows)]
    words += [text for one in wrong for text in (one.id, one.severity, one.printed, one.right, one.why, one.at)]
    return f"{zlib.crc32(chr(0).join(words).encode()):08x}"


def line(entry: Entry, wrong: list[Erratum]) -> str:
    return f"{entry.id},{' '.join(ordered(said(entry)))},{digest(entry, wrong)}"


def as_read() -> dict[str, str]:
    return {one.partition(",")[0]: one for one in READ.read_text("utf-8").splitlines()[1:]}


def of(entry: Entry) -> list[Erratum]:
    return [one for one in errata() if one.of == entry.id]


def test_texts_match_their_reviewed_version() -> None:
    found = {entry.id: line(entry, of(entry)) for entry in entries()}
    changed = [text for name, text in found.items() if as_read().get(name) != text]
    assert not changed, "read these items again and put into texts_as_read.csv:\n" + "\n".join(changed)
    assert list(as_read()) == list(found)


Change = Callable[[Entry, np.random.Generator], Entry]


def _any_text(entry: Entry, draw: np.random.Generator) -> tuple[str, str]:
    chosen = [name for name in TEXTS if getattr(entry, name)]
    name = chosen[draw.integers(len(chosen))]
    return name, getattr(entry, name)


def other_verdict(entry: Entry, draw: np.random.Generator) -> Entry:
    others = [one for one in VERDICTS if one != entry.verdict]
    return replace(entry, verdict=others[draw.integers(len(others))])


def moved_number(entry: Entry, draw: np.random.Generator) -> Entry:
    name, text = _any_text(entry, draw)
    places = list(re.finditer(r"\d+", text))
    if not places:
        return other_words(entry, draw)
    place = places[draw.integers(len(places))]
    return replace(
        entry, **{name: f"{text[: place.start()]}{int(place[0]) + draw.integers(1, 9)}{text[place.end() :]}"}
    )


def other_words(entry: Entry, draw: np.random.Generator) -> Entry:
    """A word left out, or put where its neighbour was."""
    name, text = _any_text(entry, draw)
    words = text.split()
    place = int(draw.integers(len(words)))
    word = words.pop(place)
    if draw.random() < 0.5 and len(set(words)) > 1:
        words.insert(place + 1 if place < len(words) else place - 1, word)
    return replace(entry, **{name: " ".join(words)})


def sentence_of_another(entry: Entry, draw: np.random.Generator) -> Entry:
    name, _ = _any_text(entry, draw)
    others = [text for one in entries() if (text := getattr(one, name)) and text != getattr(entry, name)]
    return replace(entry, **{name: others[draw.integers(len(others))]})


CHANGES: tuple[Change, ...] = (other_verdict, moved_number, other_words, sentence_of_another)


def test_one_hundred_random_changes_of_texts_and_verdicts_are_noticed() -> None:
    draw, kept, missed = np.random.default_rng(1), as_read(), []
    for number in range(100):
        entry = SPOKEN[draw.integers(len(SPOKEN))]
        changed = CHANGES[number % len(CHANGES)](entry, draw)
        if changed != entry and line(changed, of(entry)) == kept[entry.id]:
            missed.append(changed)
    assert missed == []
