"""Students' tables: right ones pass however they are written, wrong ones are caught, and the mistake is named.

Answers and mistakes are drawn from formulas of their own (`students.py`), written with few or many digits, in other
units, columns and orders. Bars: all of 40 right tables pass; of 200 wrong ones at least 190 are caught, 150 named.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace as Numbers
from typing import Any

import numpy as np
import pytest

import lockstep
from cli_runner import run
from effort import share
from evidence.students import MISTAKES, RIGHT, Answers, c4, times
from lockstep.base.errors import BadInput, UnknownName
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


def solved(drawn: Drawn, solve: Callable[[Numbers], Answers]) -> list[Answers]:
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


def graded(drawn: Drawn, text: str, tmp_path: Path, **more: Any) -> Grade:
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
def test_right_tables_pass_however_they_are_written(item: str, seed: int | None, number: int, tmp_path: Path) -> None:
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


def test_wrong_tables_are_caught_and_their_mistakes_named(tmp_path: Path) -> None:
    """A sixteenth of the 200 in every run: `share` of tests/effort.py."""
    caught, unnamed = 0, []
    tables = share([*enumerate(wrong_tables())], 16)
    for number, (item, seed, words, rows, digits) in tables:
        drawn = SHEETS[item].for_student(seed)
        found = graded(drawn, written(drawn, rows, random.Random(number), digits), tmp_path)
        caught += not found.ok
        said = [one for mistake in found.mistakes[:1] for one in (mistake.words, *mistake.also)]
        if not any(re.search(words, one) for one in said):
            unnamed.append((item, seed, words, said))
    assert caught >= 0.95 * len(tables)
    assert len(unnamed) <= 0.25 * len(tables), unnamed


RIGHT_TEXT = written(SHEETS["C.4"].for_student(None), solved(SHEETS["C.4"].for_student(None), c4), random.Random(0), 5,
                     plain=True)  # fmt: skip


def read(text: str, tmp_path: Path, **more: Any) -> Grade:
    return graded(SHEETS["C.4"].for_student(None), text, tmp_path, **more)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("5.4984", "NaN", r"table.csv:3: ring_ms: 'NaN' is no number"),
        ("5.4984", "", r"table.csv:3: ring_ms is empty"),
        ("5.4984", "5,4978", r"table.csv:3: has 6 cells where the header has 5; decimal commas need ; or tabs"),
        ("5.4984", '"5,498"', r"table.csv:3: '5,498' may be 5.498 or 5498"),
        ("5.4984", "5.4984 MB", r"table.csv:3: 'MB' is no unit of ring; it takes ms"),
        ("5.4984", "1e999", r"table.csv:3: ring_ms: '1e999' is not finite"),
        ("ring_ms", "first_ms", r"table.csv:1: no column for ring_ms; .* --column 'THEIRS=ring'"),
        ("tree_ms", "ring (ms)", r"table.csv:1: both ring_ms and ring \(ms\) may be ring_ms"),
        ("10,", "1,", r"table.csv:3: says what line 2 says too"),
        ("size_MB", "size_B", r"table.csv:1: no row is one of this sheet; size is 1, 10, 17"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(before: str, after: str, said: str, tmp_path: Path) -> None:
    assert before in RIGHT_TEXT
    with pytest.raises(BadInput, match=said):
        read(RIGHT_TEXT.replace(before, after, 1), tmp_path)


def test_missing_rows_are_wrong_and_further_ones_are_not_graded(tmp_path: Path) -> None:
    lines = RIGHT_TEXT.splitlines()
    missing = read("\n".join(lines[:-1]), tmp_path)
    assert not missing.ok
    assert missing.missing == ("size 1000 MB",)
    assert not missing.off
    more = read("\n".join([*lines, "3,1,1,1,1"]), tmp_path)
    assert more.ok
    assert more.notes == ("not asked for and not graded: line 9",)


def test_columns_are_taken_as_told(tmp_path: Path) -> None:
    header, *lines = RIGHT_TEXT.splitlines()
    text = "\n".join([header.replace("ring_ms", "zorn [us]"), *lines])
    told = read(text, tmp_path, told=["zorn [us]=ring"])
    assert {round(one.factor or 0, 6) for one in told.off} == {1e-3}
    assert {one.column for one in told.off} == {"ring"}
    assert "units of time" in told.mistakes[0].words
    with pytest.raises(UnknownName, match="did you mean ring"):
        read(text, tmp_path, told=["zorn [us]=rin"])


def test_a_mistake_within_the_tolerance_is_told_by_the_digits_unless_a_tolerance_is_given(tmp_path: Path) -> None:
    """256 for 255 is 0.4 % off."""
    drawn = SHEETS["C.4"].for_student(None)
    rows = solved(drawn, lambda v: times("ring", v.ranks / (v.ranks - 1))(c4(v)))
    text = written(drawn, rows, random.Random(0), 5, plain=True)
    found = read(text, tmp_path)
    assert (found.ok, found.within, found.off) == (False, True, ())
    assert "ranks for ranks - 1 in ring" in found.mistakes[0].words
    assert read(text, tmp_path, tolerance_frac=0.01).ok
    assert not read(text, tmp_path, tolerance_frac=0.002).ok


def test_students_have_numbers_of_their_own_and_those_of_the_statement_are_recognised(tmp_path: Path) -> None:
    sheet = SHEETS["C.4"]
    everyone = {tuple(sheet.for_student(seed).givens.values()) for seed in range(100)}
    assert len(everyone) > 30
    assert sheet.for_student(7).givens == {"ranks": 512.0, "latency": pytest.approx(20e-6), "bandwidth": 50e9}
    drawn = sheet.for_student(7)
    others = SHEETS["C.4"].for_student(None)
    text = written(drawn, solved(others, c4), random.Random(0), 5, plain=True)
    assert "numbers of the statement" in graded(drawn, text, tmp_path).mistakes[0].words


def test_the_command_exits_with_0_1_and_2(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(RIGHT_TEXT)
    right = run("claims", "C.4", "--check", str(path))
    assert right.code == 0
    assert right.out.startswith("C.4: all 28 values are right, within 1 %")
    wrong = run("claims", "C.4", "--seed", "7", "--check", str(path), "--json")
    assert wrong.code == 1
    assert wrong.json()["grade"]["off"] == len([one for one in wrong.json()["grade"]["values"] if not one["ok"]])
    path.write_text(RIGHT_TEXT.replace("5.4984", "?"))
    assert run("claims", "C.4", "--check", str(path)).refusal().startswith(f"{path}:3: ring_ms: '?' is no number")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("C.12", "--check", "x.csv"), "ID: C.12 has no table to fill in"),
        (("--check", "x.csv"), "--check: is about one exercise"),
        (("C.1", "C.4", "--check", "x.csv"), "--check: is about one exercise"),
        (("C.4", "--column", "a=ring"), "--column: is about a table that is graded"),
        (("C.4", "--tolerance", "1%"), "--tolerance: is about a table that is graded"),
        (("C.4", "--check", "x.csv", "--tolerance", "60%"), "--tolerance: must be above 0 and at most 50%"),
        (("C.4", "--check", "x.csv", "--solutions"), "--check: grading a table and handing one out"),
        (("C.4", "--run", "--solutions"), "--solutions: the table of an exercise and --run"),
        (("T5", "--seed", "3"), "--seed: nothing runs here"),
        (("C.4", "--seed", "-1"), "--seed: "),
    ],
)
def test_options_that_contradict_one_another_are_refused(words: tuple[str, ...], said: str) -> None:
    assert run("claims", *words).refusal().startswith(said)


def test_a_filled_sheet_is_right_and_an_empty_one_has_no_answers(tmp_path: Path) -> None:
    for item in SHEETS:
        found = lockstep.claims(item, seed=5, solutions=True).sheet
        assert found is not None
        (tmp_path / "t.csv").write_text(found.csv)
        assert grade(item, tmp_path / "t.csv", 5).ok
        assert found.csv in found.text
        lockstep.claims(item, seed=5, handout=tmp_path / "t.md")
        empty = (tmp_path / "t.md").read_text()
        assert found.check in empty
        answers = [cell for row in found.rows for cell in row[len(found.drawn.sheet.inputs) :] if len(cell) > 5]
        assert not [cell for cell in answers if cell in empty]


def test_rows_of_a_program_are_graded() -> None:
    drawn = SHEETS["C.4"].for_student(None)
    rows = [{"size_MB": row["size"] / 1e6, **values} for row, values in zip(drawn.rows, solved(drawn, c4), strict=True)]
    titles = {"ring": "ring_s", "tree": "tree_s", "halving": "halving_s", "sent": "sent_B"}
    named = [{titles.get(name, name): value for name, value in row.items()} for row in rows]
    assert lockstep.claims("C.4", check=named).ok
