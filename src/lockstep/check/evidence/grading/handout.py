"""`Handout`: an exercise as a sheet of Markdown, with a student's own numbers, without or with solutions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lockstep.base.documents.files import write_text
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, plain
from lockstep.check.evidence.grading.sheet import Column, Drawn
from lockstep.check.evidence.grading.sheets import sheet_of

DIGITS = 5


@dataclass(frozen=True)
class Handout:
    """A sheet."""

    drawn: Drawn
    title: str
    solutions: bool = False

    @property
    def rows(self) -> list[list[str]]:
        """Cells of the table in the units of their columns; answers are empty without solutions."""
        sheet = self.drawn.sheet
        return [
            [one.written(row[one.name], DIGITS) for one in sheet.inputs]
            + [one.written(self.drawn.truth[one.name][at], DIGITS) if self.solutions else "" for one in sheet.asked]
            for at, row in enumerate(self.drawn.rows)
        ]

    @property
    def csv(self) -> str:
        """The table as a file to fill in."""
        header = [one.header for one in self.drawn.sheet.columns]
        return "\n".join(",".join(cells) for cells in [header, *self.rows]) + "\n"

    @property
    def check(self) -> str:
        """The command that grades it."""
        student = "" if self.drawn.seed is None else f" --seed {self.drawn.seed}"
        return f"lockstep claims {self.drawn.sheet.id} --check {self.file}{student}"

    @property
    def file(self) -> str:
        """What the filled table may be called."""
        return f"{self.drawn.sheet.id.replace('.', '').lower()}.csv"

    @property
    def text(self) -> str:
        """The sheet as Markdown."""
        sheet = self.drawn.sheet
        student = "" if self.drawn.seed is None else f"Numbers of student {self.drawn.seed}.\n\n"
        numbers = [[one.what, one.name, one.shown(self.drawn.givens[one.name], 6)] for one in sheet.givens]
        asked = [[one.header, one.what, _unit(one)] for one in sheet.columns]
        parts = [
            f"# {sheet.id} {self.title}\n\n{student}{sheet.task}\n",
            f"## Numbers\n\n{_table(['what', 'name', 'value'], numbers)}",
            f"## {'Solution' if self.solutions else 'Table'}\n\n{_table(['column', 'what', 'unit'], asked)}",
            f"```csv\n{self.csv}```\n",
        ]
        if self.solutions:
            slips = [f"- {one.words}" for one in sheet.slips]
            parts += ["Mistakes that this exercise invites:\n\n" + "\n".join(slips) + "\n"] if slips else []
        else:
            parts.append(f"Fill in the table, save it as `{self.file}`, and grade it:\n\n```bash\n{self.check}\n```\n")
        return "\n".join(parts)

    def save(self, path: str | Path, where: str = "--handout") -> None:
        """Writes it. Raises BadInput."""
        write_text(path, self.text, where)

    def to_dict(self) -> Json:
        """Plain JSON form, numbers in SI units."""
        sheet = self.drawn.sheet
        values = {one.name: plain(self.drawn.truth[one.name]) for one in sheet.asked} if self.solutions else {}
        return {
            "exercise": sheet.id,
            "seed": self.drawn.seed,
            "task": sheet.task,
            "parameters": dict(self.drawn.givens),
            "rows": [
                {**row, **{name: column[at] for name, column in values.items()}}
                for at, row in enumerate(self.drawn.rows)
            ],
            "columns": [{"name": one.name, "header": one.header, "what": one.what} for one in sheet.columns],
            "csv": self.csv,
            "check": self.check,
        }


def handout(item: str, title: str, seed: int | None = None, solutions: bool = False) -> Handout:
    """The sheet of an exercise by its id. Raises BadInput where it has none."""
    return Handout(sheet_of(item).for_student(seed), title, solutions)


def _unit(column: Column) -> str:
    return column.unit or {"share": "fraction of 1", "count": "number"}.get(column.kind, "number")


def _table(header: list[str], rows: Iterable[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
