"""Tables with a line for each layout: in columns where they fit, with less of what can be said above or left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.units import SECONDS_PER_DAY, format_frac, format_money, format_size, format_time
from lockstep.show.views.parts.layout_columns import layout_columns
from lockstep.show.views.parts.terminal import indented, paragraph, table, table_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console
    from rich.table import Table

    from lockstep.decide.planner.course import Course
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.show.views.parts.layout_columns import Column

    Number = tuple[str, Callable[[Estimate], str]]

PROPORTIONAL = ("time", "MFU")
"""Columns that follow from the step time of a row and from the first row, in the order in which a table does without
them."""


def print_layouts(rows: Sequence[Estimate], aim: float | Course | None, out: Console) -> None:
    """Prints a line for each layout: how it is laid out, speed, memory, cost.

    Where the columns do not fit, what is the same in all rows stands above the table, and then numbers that are
    proportional to others are left out. A layout is written in words, which may wrap, where that is not enough.
    """
    numbers = [*_NUMBERS, *(_cost(aim, rows[0].job.unit) if rows[0].cost_per_token is not None else ())]
    columns = layout_columns([one.layout for one in rows])
    for gap, shared, own, shown in _forms(rows, columns, numbers):
        made = _table(rows, own, shown)
        if table_width(made, gap) - gap <= out.width - 2:
            said = ", ".join(f"{title} {show(rows[0].layout)}" for title, _, show in shared)
            if said:
                paragraph(out, f"all with {said}", "dim", indent=2)
            indented(out, made)
            return
    indented(out, _table(rows, [("layout", "text", str)], shown))


def _forms(
    rows: Sequence[Estimate], columns: list[Column], numbers: list[Number]
) -> Iterator[tuple[int, list[Column], list[Column], list[Number]]]:
    """Cells between columns, columns whose value is said above, other columns, numbers; the widest table first."""
    yield 2, [], columns, numbers
    same = {title for title, _, show in columns if len({show(one.layout) for one in rows}) == 1 < len(rows)}
    shared, own = ([one for one in columns if (one[0] in same) == above] for above in (True, False))
    for count in range(len(PROPORTIONAL) + 1):
        yield 1, shared, own, [one for one in numbers if one[0] not in PROPORTIONAL[:count]]


def _table(rows: Sequence[Estimate], columns: list[Column], numbers: list[Number]) -> Table:
    titles = [(title, kind) for title, kind, _ in columns] + [(title, "right") for title, _ in numbers]
    return table(
        titles, ([show(one.layout) for *_, show in columns] + [show(one) for _, show in numbers] for one in rows)
    )


_NUMBERS: list[Number] = [
    ("step", lambda one: format_time(one.step_time_s)),
    ("MFU", lambda one: format_frac(one.mfu_frac)),
    ("memory", lambda one: format_size(float(one.memory.total_B))),
]


def _cost(aim: float | Course | None, unit: str) -> list[Number]:
    """Dollars for all that is read, or for a million tokens when it is not said how many; of images likewise."""
    if aim is None:
        return [(f"$/M{unit[:-1]}", lambda one: f"{(one.cost_per_token or 0.0) * 1e6:.3g}")]
    return [
        ("time", lambda one: format_time(one.campaign(aim)[0] * SECONDS_PER_DAY)),
        ("cost", lambda one: format_money(one.campaign(aim)[1] or 0.0)),
    ]
