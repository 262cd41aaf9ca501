"""The table of an exercise on a terminal: the sheet, or what came of grading one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_frac
from lockstep.show.views.parts.terminal import heading, indented, paragraph, table

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.check.evidence.grading.grade import Grade, Value
    from lockstep.check.evidence.grading.handout import Handout
    from lockstep.check.evidence.grading.likeliest import Explained
    from lockstep.show.verbs.claims import Claims

MOST = 12
TINY, HUGE = 1e-3, 1e4


def render_table(found: Claims, out: Console) -> None:
    """Prints a sheet or a grade."""
    if found.grade is not None:
        _grade(found.grade, out)
    elif found.sheet is not None:
        _sheet(found.sheet, out)


def _sheet(sheet: Handout, out: Console) -> None:
    drawn = sheet.drawn
    whose = "the statement" if drawn.seed is None else f"student {drawn.seed}"
    out.print(Text.assemble((f"{drawn.sheet.id} ", "bold"), (f"{sheet.title}, with the numbers of {whose}", "bold")))
    out.print()
    paragraph(out, drawn.sheet.task, indent=2)
    heading(out, "Numbers")
    numbers = [[one.name, one.shown(drawn.givens[one.name], 6), one.what] for one in drawn.sheet.givens]
    indented(out, table([("", "left"), ("", "right"), ("", "text")], numbers))
    heading(out, "Solution" if sheet.solutions else "Table to fill in")
    indented(out, table([(one.header, "right") for one in drawn.sheet.columns], sheet.rows))
    if not sheet.solutions:
        out.print(f"\n  {sheet.check}")


def _grade(grade: Grade, out: Console) -> None:
    sheet, number, off = grade.drawn.sheet, len(grade.values), len(grade.off)
    within = f"within {format_frac(grade.tolerance_frac)}"
    if grade.ok:
        out.print(Text(f"{sheet.id}: all {number} values are right, {within}", style="bold green"))
    elif grade.within:
        said = f"{sheet.id}: all {number} values are right {within}, but repeat a known mistake to the last digit"
        out.print(Text(said, style="bold red"))
    else:
        missing = f"{', ' * bool(off)}{len(grade.missing)} rows are missing" * bool(grade.missing)
        said = f"{off} of {number} values are off by more than {format_frac(grade.tolerance_frac)}" * bool(off)
        out.print(Text(f"{sheet.id}: {said}{missing}", style="bold red"))
    for row in grade.missing[:MOST]:
        out.print(f"  missing: {row}")
    if grade.off:
        _off(grade, out)
    _mistakes(grade, out)
    for note in grade.notes:
        out.print(Text(f"\n{note}", style="dim"))


def _off(grade: Grade, out: Console) -> None:
    heading(out, "Off", f"the first {MOST}; --json has all" * (len(grade.off) > MOST))
    columns = {one.name: one for one in grade.drawn.sheet.asked}
    rows = [
        [
            str(one.line),
            one.row,
            one.column,
            columns[one.column].shown(one.given),
            columns[one.column].shown(one.right),
            _factor(one),
        ]
        for one in grade.off[:MOST]
    ]
    titles = [
        ("line", "right"),
        ("row", "text"),
        ("column", "left"),
        ("yours", "right"),
        ("right", "right"),
        ("factor", "right"),
    ]
    indented(out, table(titles, rows))


def _factor(value: Value) -> str:
    if value.factor is None:
        return "-"
    return f"{value.factor:.4g}" if TINY <= abs(value.factor) < HUGE else f"{value.factor:.2e}"


def _mistakes(grade: Grade, out: Console) -> None:
    for place, one in enumerate(grade.mistakes):
        out.print()
        paragraph(out, f"{'Likeliest mistake' if not place else 'Another mistake'}: {one.words}.")
        paragraph(out, f"This explains {_evidence(one, grade)}.", indent=2)
        for other in one.also:
            paragraph(out, f"Explains as much: {other}.", indent=2)
    if grade.off and not grade.mistakes:
        out.print("\nNo known mistake explains these values.")


def _evidence(one: Explained, grade: Grade) -> str:
    where = " and ".join([", ".join(one.columns[:-1])] * (len(one.columns) > 1) + [one.columns[-1]])
    if grade.within:
        return f"all digits of {where}, where the right values differ from them in {one.rows} rows"
    every = "all" if one.rows == one.of else f"{one.rows} of"
    return f"{every} {one.of} wrong values in {where}" if one.of > 1 else f"the wrong value in {where}"
