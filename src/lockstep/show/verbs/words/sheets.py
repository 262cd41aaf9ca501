"""Options of `claims` that are about an exercise as a table: to hand it out, and to grade what comes back."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.units import parse_frac
from lockstep.show.verbs.words.option import Option
from lockstep.show.verbs.words.quantity import Quantity

if TYPE_CHECKING:
    from lockstep.check.evidence.claims.entry import Entry
    from lockstep.check.evidence.grading.grade import Grade
    from lockstep.check.evidence.grading.handout import Handout

_SHEET = "Tables of exercises"
Answers = str | Path | Sequence[Mapping[str, object]]
"""A student's table: a file, or its rows."""
CHECK = Option("FILE", "A student's table of an exercise as CSV, to be graded.", panel=_SHEET)
COLUMN = Option(
    "THEIRS=OURS",
    "Which column of the student's table is which column of the sheet, where names do not say it.",
    panel=_SHEET,
    repeated=True,
)
TOLERANCE = Option("FRAC", "Largest relative difference of a right value.", panel=_SHEET, default="1%")
HANDOUT = Option("FILE", "Write the sheet of an exercise as Markdown, with --seed those of a student.", panel=_SHEET)
SOLUTIONS = "Fill in the answers of the sheet."
MOST_TOLERANCE = 0.5


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked about the table of an exercise."""

    check: Answers | None
    column: Sequence[str]
    tolerance: Quantity | None
    handout: str | Path | None
    solutions: bool
    seed: int | None

    @property
    def any(self) -> bool:
        """Whether there is something that only a table has."""
        given = (self.check, self.tolerance, self.handout)
        return any(one is not None for one in given) or bool(self.column) or self.solutions

    def refuse(self, found: "Sequence[object]", runs: bool) -> None:
        """Raises BadInput where options contradict one another, or where it is not one item."""
        flag = "--check" if self.check is not None else "--handout" if self.handout is not None else "--solutions"
        if self.check is None and (self.tolerance is not None or self.column):
            wrong = "--tolerance" if self.tolerance is not None else "--column"
            raise BadInput("is about a table that is graded; give it with --check", wrong)
        if self.check is not None and (self.handout is not None or self.solutions):
            raise BadInput("grading a table and handing one out are two questions; ask one of them", "--check")
        if runs:
            raise BadInput("the table of an exercise and --run, --all or --errata are two questions; ask one", flag)
        if len(found) != 1:
            raise BadInput(f"is about one exercise, such as C.4; got {len(found) or 'none'}", flag)


def answered(wanted: Wanted, entry: "Entry") -> "Grade | Handout":
    """The graded table or the sheet, which is written where a file is wanted. Raises BadInput."""
    from lockstep.check.evidence.grading.grade import grade
    from lockstep.check.evidence.grading.handout import handout

    if wanted.check is None:
        sheet = handout(entry.id, entry.title, wanted.seed, wanted.solutions)
        if wanted.handout is not None:
            sheet.save(wanted.handout)
        return sheet
    allowed = None if wanted.tolerance is None else parse_frac(wanted.tolerance, "--tolerance")
    if allowed is not None and not 0 < allowed <= MOST_TOLERANCE:
        raise BadInput(f"must be above 0 and at most 50%, got {wanted.tolerance}", "--tolerance")
    return grade(entry.id, wanted.check, wanted.seed, allowed, wanted.column)
