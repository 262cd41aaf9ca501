"""The sheets of the exercises, by id. Raises UnknownName for one without."""

from __future__ import annotations

from lockstep.base.errors import BadInput
from lockstep.check.evidence.grading.sheet import Sheet
from lockstep.check.evidence.grading.sheets import communication, methods, runs, steps

SHEETS: dict[str, Sheet] = {
    one.id: one for file in (communication, steps, methods, runs) for one in file.SHEETS
}  # fmt: skip


def sheet_of(item: str) -> Sheet:
    """The sheet of an exercise. Raises BadInput where it has none."""
    if item not in SHEETS:
        raise BadInput(f"{item} has no table to fill in; {', '.join(sorted(SHEETS, key=_order))} have", "ID")
    return SHEETS[item]


def _order(item: str) -> tuple[str, int]:
    kind, _, number = item.partition(".")
    return kind, int(number or 0)
