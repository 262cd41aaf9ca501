"""Which column of a student's table is which, and in which unit: by name, however it is written, or as told.

    time_ring [ms]    Ring (ms)    ring_ms    T_ring / ms    ring time in ms        are all the ring in milliseconds
A name that cannot be recognised is never guessed: the message says which columns are wanted and how to name them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.check.evidence.grading.reading import Raw, names
from lockstep.check.evidence.grading.sheet import UNITS, Answer, Column, Input, Sheet

BRACKETS = re.compile(r"^(.*?)\s*[(\[{]\s*([^)\]}]*?)\s*[)\]}]\s*(.*)$")
AFTER = re.compile(r"^(.*?)(?:\s*/\s*|\s+in\s+|_in_|[\s_]+)([^\s_/]+(?:/s)?)$")
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|\u03c4")
FILLERS = {
    "time",
    "t",
    "the",
    "of",
    "in",
    "a",
    "an",
    "per",
    "value",
    "number",
    "num",
    "no",
    "answer",
    "my",
    "for",
    "to",
    "expected",
    "by",
    "each",
    "rank",
    "bytes",
}
CLOSE = 0.8


@dataclass(frozen=True, slots=True)
class Place:
    """A column of the student's table: where it stands and in which unit, nothing where the header has none."""

    index: int
    unit: str


def places(sheet: Sheet, raw: Raw, told: Sequence[str]) -> dict[str, Place]:
    """Where the columns of the sheet are. Inputs may be missing. Raises BadInput, UnknownName."""
    found = dict(_told(sheet, raw, told))
    for certain in (3, 2, 1):
        for column in sheet.columns:
            if column.name not in found:
                taken = {place.index for place in found.values()}
                fits = [
                    (at, unit)
                    for at, title in enumerate(raw.header)
                    if at not in taken
                    for score, unit in [_fit(column, title)]
                    if score == certain
                ]
                if len(fits) > 1:
                    two = " and ".join(raw.header[at] for at, _ in fits[:2])
                    raise BadInput(f"both {two} may be {column.header}; {_how(column)}", raw.where(raw.first_line))
                if fits:
                    found[column.name] = Place(*fits[0])
    missing = [one for one in sheet.asked if one.name not in found]
    if missing:
        wanted = names(one.header for one in missing)
        raise BadInput(
            f"no column for {wanted}; there are {names(raw.header)}; {_how(missing[0])}", raw.where(raw.first_line)
        )
    return found


def _how(column: Column) -> str:
    return f"say which it is with --column 'THEIRS={column.name}'"


def _told(sheet: Sheet, raw: Raw, told: Sequence[str]) -> Iterator[tuple[str, Place]]:
    """What `theirs=ours` says."""
    ours = {name: one for one in sheet.columns for name in (one.name, one.header)}
    for text in told:
        theirs, sign, own = (part.strip() for part in text.rpartition("="))
        if not sign:
            raise BadInput(f"must be THEIRS=OURS, got {text!r}", "--column")
        if own not in ours:
            raise UnknownName("column", own, [one.name for one in sheet.columns], "--column")
        if theirs not in raw.header:
            raise UnknownName("column of the table", theirs, raw.header, "--column")
        column = ours[own]
        yield column.name, Place(raw.header.index(theirs), _split(column, theirs)[1])


def _fit(column: Input | Answer, title: str) -> tuple[int, str]:
    """How well a title fits: 3 to the word, 2 but for words that say nothing, 1 among others, 0 not at all."""
    base, unit = _split(column, title)
    said = _words(base)
    best = 0
    for name in (column.name, *column.words, column.what):
        own = _words(name)
        plain, bare = said - FILLERS, own - FILLERS or own
        if said == own or base.strip() == name:
            best = 3
        elif plain == bare:
            best = max(best, 2)
        elif (bare <= said and len("".join(bare)) > 1) or (
            len(base) > 3 and difflib.SequenceMatcher(None, _joined(said), _joined(own)).ratio() > CLOSE
        ):
            best = max(best, 1)
    return best, unit


def _joined(words: set[str]) -> str:
    return "".join(sorted(words))


def _words(text: str) -> set[str]:
    found = {word.casefold() for word in WORDS.findall(text)}
    return {word.removesuffix("s") if len(word) > 3 and not word.endswith("ss") else word for word in found}


def _split(column: Column, title: str) -> tuple[str, str]:
    """A title without its unit, and the unit; one that is not of the column's kind is part of the title."""
    for pattern in (BRACKETS, AFTER):
        if match := pattern.match(title.strip()):
            unit = unit_of(column, match[2])
            if unit:
                return " ".join([match[1], *match.groups()[2:]]).strip(), unit
    return title.strip(), ""


def unit_of(column: Column, written: str) -> str:
    """The unit as Lockstep writes it; nothing where it is none of the column's kind."""
    units = UNITS[column.kind]
    text = written.strip().removeprefix("in ")
    if not text:
        return ""
    for form in (text, text.casefold(), text.upper().replace("I", "i"), text.capitalize()):
        if form in units:
            return form
    return {"msec": "ms", "usec": "us", "pct": "%", "prozent": "%"}.get(text.casefold(), "") if units else ""
