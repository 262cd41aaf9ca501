"""`Choice`: which value of one named option is best for each value of another, such as which cluster for which model.

cell (model, cluster) = the least of a figure over all other options
"""

from __future__ import annotations

from collections.abc import Sequence

from lockstep.base.records import dataclass
from lockstep.base.rows.columns import label
from lockstep.base.rows.rows import Rows

LEAST = ("plans.0.cost_per_token", "cost", "days", "step_time_s", "plans.0.step_time_s")
"""Figures of which less is better, the first that an answer has decides."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A figure by two named options."""

    key: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    """[row][column]; None where there is no answer."""

    @property
    def label(self) -> str:
        """The figure, for a person."""
        return label(self.key)

    def ranked(self, row: int) -> list[tuple[float, str]]:
        """(figure, column) of those with an answer, the best first."""
        known = zip(self.values[row], self.columns, strict=True)
        return sorted((value, name) for value, name in known if value is not None)


def choice(found: Rows, figures: Sequence[str]) -> Choice | None:
    """The choice in rows over two options that are names; None where there are not two, or no figure decides."""
    named = [name for name in found.options if all(isinstance(row.point[name], str) for row in found.rows)]
    keys = [key for key in LEAST if key in figures and any(row.figure(key) is not None for row in found.rows)]
    if len(named) != 2 or not keys:
        return None
    by, over = named
    rows, columns = ({row.point[name]: None for row in found.rows} for name in named)
    cells: dict[tuple[str, str], float] = {}
    for row in found.rows:
        value, place = row.figure(keys[0]), (row.point[by], row.point[over])
        if isinstance(value, int | float):
            cells[place] = min(value, cells.get(place, value))
    values = tuple(tuple(cells.get((one, other)) for other in columns) for one in rows)
    return Choice(keys[0], tuple(rows), tuple(columns), values)
