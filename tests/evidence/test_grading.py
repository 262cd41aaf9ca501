"""Students' tables: right ones pass however they are written, wrong ones are caught, and the mistake is named.

Answers and mistakes are drawn from formulas of their own (`students.py`), written with few or many digits, in other
units, columns and orders. Bars: all of 40 right tables pass; of 200 wrong ones at least 190 are caught, 150 named.
"""

from __future__ import annotations

import random
import re
from types import SimpleNamespace as Numbers

import numpy as np
import pytest

from evidence.students import MISTAKES, RIGHT, Answers
from lockstep.check.evidence.grading.grade import Grade, grade
from lockstep.check.evidence.grading.sheet import UNITS, Drawn, Input
from lockstep.check.evidence.grading.sheets import SHEETS

OTHER_UNITS = {"ms": ("s", "us", "ms"), "s": ("s", "min", "ms"), "min": ("h", "s", "min"), "h": ("d", "h"),
               "d": ("h", "d"),
               "MB": ("GB", "kB", "MiB", "MB"), "GB": ("MB", "GiB", "GB"), "": ("",)}  # fmt: skip
TITLES = ("{name}_{unit}", "{name} ({unit})", "{Name} [{unit}]", "{name} in {unit}", "{NAME} / {unit}")
SEPARATORS = (",", ";", "\t")


def numbers(drawn: Drawn, at: int) -> Numbers:
    """What a formula takes for a row."""
    every = {f"every_{one.name}": [row[one.name] for row in drawn.rows] for one in drawn.sheet.inputs}
    return Numbers(**drawn.givens, **drawn.rows[at], **every)


def solved(drawn: Drawn, solve) -> list[Answers]:  # type: ignore[no-untyped-def]
    return [solve(numbers(drawn, at)) for at in range(len(drawn.rows))]


def written(drawn: Drawn, rows: list[Answers], draw: random.Random, digits: int = 0, *, plain: bool = False) -> str:
    """The table as a student writes it: digits, units, titles, separators and order drawn, unless it is plain."""
    digits = digits or draw.choice((3, 4, 5, 8))
    separator = "," if plain else draw.choice(SEPARATORS)
    comma = separator == ";" and draw.random() < 0.5
    columns = [*drawn.sheet.columns]
    if not plain:
        draw.shuffle(columns)
    titles, factors = [], []
    for one in columns:
        unit = one.unit if plain else draw.choice(OTHER_UNITS.get(one.unit, (one.unit,)))
        form = TITLES[0] if plain else draw.choice(TITLES)
        name = one.name if plain else one.name.replace("_", draw.choice(("_", " ")))
        title = form.format(name=name, Name=name.capitalize(), NAME=name.upper(), unit=unit)
        titles.append(title if unit else name)
        factors.append(UNITS[one.kind].get(unit, 1.0))
    lines = []
    for at, row in enumerate(rows):
        values = {**drawn.rows[at], **row}
        cells = [f"{values[one.name] / factor:.{12 if isinstance(one, Input) else digits}g}"
                 for one, factor in zip(columns, factors, strict=True)]  # fmt: skip
        lines.append(separator.join(cell.replace(".", ",") if comma else cell for cell in cells))
    if not plain:
        draw.shuffle(lines)
    return "\n".join([separator.join(titles), *lines]) + "\n"


def graded(drawn: Drawn, text: str, tmp_path, **more: float) -> Grade:  # type: ignore[no-untyped-def]
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    return grade(drawn.sheet.id, path, drawn.seed, **more)


@pytest.mark.parametrize("item", SHEETS)
def test_answers_agree_with_formulas_written_apart(item: str) -> None:
    """Shares that depend on how a value next to an edge rounds, and whole samples, agree nearly."""
    for seed in (None, 1, 2, 3):
        drawn = SHEETS[item].for_student(seed)
        for at, row in enumerate(solved(drawn, RIGHT[item])):
            for name, values in drawn.truth.items():
                assert np.isclose(row[name], values[at], rtol=1.5e-3, atol=1e-8), (seed, drawn.rows[at], name)


def right_tables() -> list[tuple[str, int | None, int]]:
    draw = random.Random(40)
    return [
        (item, draw.choice((None, 1, 7, 23, 4096)), number)
        for number, item in enumerate([*SHEETS, *SHEETS, *SHEETS][:40])
    ]


@pytest.mark.parametrize(("item", "seed", "number"), right_tables())
def test_right_tables_pass_however_they_are_written(item: str, seed: int | None, number: int, tmp_path) -> None:  # type: ignore[no-untyped-def]
    drawn = SHEETS[item].for_student(seed)
    text = written(drawn, solved(drawn, RIGHT[item]), random.Random(number))
    found = graded(drawn, text, tmp_path)
    assert found.ok, (text, found.off[:3], found.mistakes)


def in_a_spreadsheet(drawn: Drawn, rows: list[Answers], draw: random.Random) -> tuple[str, list[Answers]]:
    """A mistake of the hand: rows moved, columns exchanged, a value typed wrongly, a sign, an order."""
    names = [one.name for one in drawn.sheet.asked if len({row[one.name] for row in rows}) == len(rows)]
    name = draw.choice(names)
    kind = draw.choice(("moved", "exchanged", "typed", "sign", "point", "reversed"))
    if kind == "exchanged":
        column = {one.name: one for one in drawn.sheet.asked}
        alike = [(a, b) for a in names for b in names if a < b and column[a].kind == column[b].kind]
        if alike:
            first, second = draw.choice(alike)
            scale = column[first].factor / column[second].factor
            return "exchanged|in the column", [
                {**row, first: row[second] * scale, second: row[first] / scale} for row in rows
            ]
        kind = "moved"
    if kind == "moved":
        return "one row", [{**row, name: rows[at - 1][name]} if at else row for at, row in enumerate(rows)]
    if kind == "reversed":
        return "reverse", [{**row, name: other[name]} for row, other in zip(rows, rows[::-1], strict=True)]
    at, wrong = draw.randrange(len(rows)), [dict(row) for row in rows]
    if kind == "typed":
        wrong[at][name] *= draw.choice((1.09, 0.89, 1.9, 0.55))
        return "typed", wrong
    if kind == "point":
        wrong[at][name] *= draw.choice((10, 0.1))
        return "point", wrong
    return "sign", [{**row, name: -row[name]} for row in rows]


def wrong_tables(number: int = 200, seed: int = 2026) -> list[tuple[str, int | None, str, list[Answers], int]]:
    """Tables with one mistake: of the exercise three times in four, else of the hand; the words, and digits."""
    draw, found = random.Random(seed), []
    while len(found) < number:
        item, student = draw.choice([*SHEETS]), draw.choice((None, 3, 11, 58, 777))
        drawn = SHEETS[item].for_student(student)
        right = solved(drawn, RIGHT[item])
        if draw.random() < 0.75:
            words, solve = draw.choice(MISTAKES[item])
            rows = solved(drawn, solve)
        else:
            words, rows = in_a_spreadsheet(drawn, right, draw)
        if any(
            not np.isclose(row[name], was[name], rtol=3e-3, atol=1e-6)
            for row, was in zip(rows, right, strict=True)
            for name in was
        ):
            found.append((item, student, words, rows, draw.choice((3, 4, 5, 8))))
    return found


def test_wrong_tables_are_caught_and_their_mistakes_named(tmp_path) -> None:  # type: ignore[no-untyped-def]
    caught = named = first = 0
    unnamed = []
    for number, (item, seed, words, rows, digits) in enumerate(wrong_tables()):
        drawn = SHEETS[item].for_student(seed)
        found = graded(drawn, written(drawn, rows, random.Random(number), digits), tmp_path)
        caught += not found.ok
        said = [one.words for one in found.mistakes[:1]]
        all_said = said + [other for one in found.mistakes[:1] for other in one.also]
        first += any(re.search(words, one) for one in said)
        named += any(re.search(words, one) for one in all_said)
        if not any(re.search(words, one) for one in all_said):
            unnamed.append((item, seed, words, all_said))
    print(f"caught {caught}, named {named}, named first {first} of 200")
    print(*unnamed, sep="\n")
    assert caught >= 190
    assert named >= 150
