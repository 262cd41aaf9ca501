"""The shelf: entries, errata and costs as they lie in the files of `shelf/`, read and found by forgiving names.

`theorem 5`, `T5`, `t.5` and `exercise C.6`, `c6` all name an entry, as `section 9.5`, `G.9.5` and `9.5` do of the
guide; `section 9` names all of its entries, `B.14/1` an erratum.
"""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from lockstep.base.errors import UnknownName
from lockstep.check.evidence.claims.entry import KINDS, Case, Check, Deliverable, Entry, Erratum, Range, Second

SHELF = Path(__file__).with_name("shelf")
FILES = ("theorem", "statement", "proof", "example", "exercise", "homework", "guide", "missing")
DOTTED = "ABC"
"""Letters whose numbers have a dot: A.1, but T1."""
WORDS = {
    "theorem": "T", "thm": "T", "claim": "A", "statement": "A", "true-false": "A", "question": "A", "problem": "B",
    "proof": "B", "example": "E", "exercise": "C", "homework": "HW",
}  # fmt: skip
SHARED = {"homework": "homework", "homeworks": "homework"}
"""A word that names all items of a kind."""
FEW = 6
"""Items that a refusal names."""
ALIKE = 0.8
"""Least similarity of a misspelled word to one of a title."""
_LETTERS = {letter.lower() for letter in KINDS.values()}
_TRUE_FALSE = re.compile(r"^true(?: or |/| )false")
_SECTION = re.compile(r"^(?:(?:guide|section|g)[.\s-]*)?(\d{1,2})\.(\d{1,2})$|^(?:guide|section|g)[.\s-]*(\d{1,2})$")
"""Of the guide: 9.5, section 9.5, G.9.5; or the whole of section 9, G.9."""
_NUMBER = re.compile(r"^(?:([a-z][a-z-]*)\s+)?(?:(hw|[tabcem])[.\s-]?)?(\d{1,2})$")


def read_check(written: Mapping[str, Any]) -> Check:
    """A check as it stands in a file; without `claimed` the statement claims what is right."""
    right = Range.read(written["right"])
    rival = written.get("rival")
    return Check(
        what=written["what"],
        by=written["by"],
        claimed=Range.read(written["claimed"]) if "claimed" in written else right,
        right=right,
        rival=None if rival is None else Range.read(rival),
        **{name: str(written.get(name, "")) for name in ("nature", "at", "follows")},
    )


def _checks(written: Iterable[Mapping[str, Any]]) -> tuple[Check, ...]:
    return tuple(read_check(one) for one in written)


def _entry(kind: str, written: Mapping[str, Any]) -> Entry:
    given: dict[str, Any] = dict(written)
    given["cases"] = tuple(Case(one["when"], one["verdict"], _checks(one["checks"])) for one in given.pop("case", ()))
    if second := given.get("second"):
        given["second"] = Second(second["says"], second["verdict"], _checks(second.get("checks", ())))
    for name in ("names", "see"):
        given[name] = tuple(given.get(name, ()))
    given["deliverables"] = tuple(Deliverable(**one) for one in given.get("deliverables", ()))
    for name in ("checks", "truths"):
        given[name] = _checks(given.get(name, ()))
    return Entry(kind=kind, **given)


@cache
def entries() -> tuple[Entry, ...]:
    """All items, in the order of the chapter."""
    found = []
    for kind in FILES:
        text = (SHELF / f"{kind}.toml").read_text(encoding="utf-8")
        found += [_entry(kind, one) for one in tomllib.loads(text, parse_float=str)["entry"]]
    return tuple(found)


@cache
def errata() -> tuple[Erratum, ...]:
    """All errata, by item: those of the file, and of every printed number that a card contradicts."""
    found = _written_errata()
    of = {item: [one for one in found if one.of == item] for item in (entry.id for entry in entries())}
    return tuple(one for entry in entries() for one in (*of[entry.id], *_of_card(entry, of[entry.id])))


@cache
def _written_errata() -> tuple[Erratum, ...]:
    """Those of `errata.csv`. Columns: id, severity, printed, right, by, claimed, value, why, at.

    A row without numbers has those of the check of its item's card that is decided the same way. `why` says of one
    that nothing can compute what it rests on instead. A number that was dropped is not used again.
    """
    found = []
    with (SHELF / "errata.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            check = _row_check(row) if row["by"] else None
            at = row["at"] or (check.at if check else "")
            found.append(Erratum(row["id"], row["severity"], row["printed"], row["right"], check, row["why"], at))
    return tuple(found)


def _row_check(row: Mapping[str, str]) -> Check:
    """The check of a row of errata, from its own numbers or from the card."""
    if row["claimed"]:
        return read_check({"what": row["printed"], "by": row["by"], "claimed": row["claimed"], "right": row["value"]})
    card = next(entry for entry in entries() if entry.id == row["id"].partition("/")[0])
    return next(check for check in card.every_check() if check.by == row["by"] and check.refutes)


def _of_card(entry: Entry, written: Sequence[Erratum]) -> Iterator[Erratum]:
    """Errata of printed numbers that the card contradicts and the file has no row of, numbered after the file's.

    A statement that the text itself calls false has none of its own, nor has one that is right in another case.
    """
    known = {one.check.by for one in written if one.check}
    last = max((int(one.id.partition("/")[2]) for one in written), default=0)
    text_denies = entry.printed == "false"
    conditional = {check for case in entry.cases for check in case.checks}
    own = () if text_denies else [check for check in entry.every_check() if check not in conditional]
    wrong = [check for check in own if check.refutes and check.by not in known and _is_printed(entry, check)]
    for number, check in enumerate(wrong, last + 1):
        printed, right = f"{check.what}: {check.claimed}", str(check.right)
        yield Erratum(f"{entry.id}/{number}", "medium", printed, right, check, at=check.at)


def _is_printed(entry: Entry, check: Check) -> bool:
    """Whether the text prints that number; of examples, exercises and the guide also one that follows from others."""
    return not check.follows or entry.kind in ("example", "exercise", "guide")


def errata_of(item: str) -> tuple[Erratum, ...]:
    """Those of one item."""
    return tuple(one for one in errata() if one.of == item)


@cache
def costs() -> dict[str, float]:
    """Processor seconds of experiments and of the deciders that take long, measured on one core."""
    with (SHELF / "costs.csv").open(encoding="utf-8", newline="") as file:
        return {row["what"]: float(row["seconds"]) for row in csv.DictReader(file)}


def canonical(name: str) -> str:
    """The id that a name like `theorem 5`, `a7` or `exercise C.6` means; the name itself where it means none."""
    text = _TRUE_FALSE.sub("true-false", " ".join(name.strip().lower().replace("_", "-").split()))
    if found := _SECTION.match(text):
        return "G." + ".".join(str(int(one)) for one in found.groups() if one)
    if found := _NUMBER.match(text):
        word, letter, number = found.groups()
        said = {word or "": (word or "") if word in _LETTERS else ""} | WORDS | KINDS
        letter = (letter or said.get(word or "", "")).upper()
        if letter:
            return f"{letter}{'.' * (letter in DOTTED)}{int(number)}"
    return name.strip()


def find_entries(name: str) -> tuple[Entry, ...]:
    """The entry of that name, or the several that share it (`theorem 3`, `homework`). Raises UnknownName."""
    wanted = canonical(name)
    same = wanted.casefold()
    found = tuple(one for one in entries() if same in (one.id.casefold(), one.title.casefold(), *one.names))
    if found or not name.strip():
        return found or _unknown(name)
    if part := tuple(one for one in entries() if one.kind == "guide" and one.id.startswith(f"{wanted}.")):
        return part
    if same in SHARED:
        return tuple(one for one in entries() if one.kind == SHARED[same])
    about = () if re.search(r"\d", name) else search(name)
    return about if len(about) == 1 else _unknown(name, about)


def _unknown(name: str, about: Sequence[Entry] = ()) -> NoReturn:
    """Raises UnknownName: how many items contain the words, or those whose title has a word like one of them."""
    if about:
        named = ", ".join(one.id for one in about[:FEW]) + ", ..." * (len(about) > FEW)
        raise UnknownName("claim", name, (), "ID", why=f"{len(about)} items contain it, {named}; --search lists them")
    close = {}
    for word in re.findall(r"[a-z-]{5,}", name.casefold()):
        for entry in entries():
            if get_close_matches(word, re.findall(r"[a-z-]{5,}", entry.title.casefold()), 1, ALIKE):
                close[entry.id] = f"{entry.id} ({entry.title})"
    why = f"did you mean {' or '.join(list(close.values())[:3])}?" if close else None
    raise UnknownName("claim", name, tuple(one.id for one in entries()), "ID", why=why)


def search(text: str) -> tuple[Entry, ...]:
    """Entries in whose title, statement or reasons every word of `text` stands."""
    words = text.casefold().split()

    def has(entry: Entry) -> bool:
        said = " ".join((entry.title, entry.says, entry.because, entry.true_form, *entry.names)).casefold()
        return all(word in said for word in words)

    return tuple(one for one in entries() if has(one))
