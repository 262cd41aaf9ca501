"""The columns of a table of answers, which are also the curves of its picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lockstep.base.records import dataclass
from lockstep.base.rows.rows import Rows
from lockstep.base.units import (
    SECONDS_PER_DAY,
    format_bandwidth,
    format_count,
    format_frac,
    format_money,
    format_size,
    format_time,
)

FORMATS: Mapping[str, Callable[[float], str]] = {
    "_per_token": lambda usd: f"{1e6 * usd:.3g}", "_per_s": format_count, "_Bps": format_bandwidth, "_s": format_time,
    "_B": format_size, "_frac": format_frac, "days": lambda days: format_time(SECONDS_PER_DAY * days),
    "cost": format_money,
}  # fmt: skip
Series = tuple[str, str] | tuple[str, str, str]
"""Of an answer that is rows itself, or has them under a third name: what names a row, and its figure."""
LABELS = {
    "plans.0.cost_per_token": "$/Mtoken",
    "plans.0.tokens_per_s": "tokens/s",
    "step_time_s.measured": "step",
    "tokens_per_s": "tokens/s",
    "memory.total_B": "memory",
    "load.max": "most tokens of an expert",
    "mfu_frac": "MFU",
    "gpus": "devices",
    "days": "time",
    "cost": "cost",
    "plans.0.mfu_frac": "MFU",
}
"""Labels that a key does not tell."""


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of every row; None where a row has none."""

    key: str
    label: str
    values: tuple[Any, ...]

    def text(self, place: int) -> str:
        """The value in a row as a person says it."""
        return shown(self.key, self.values[place])


def shown(key: str, value: object) -> str:
    """A number in the unit that its dotted key ends on."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    for ending, write in FORMATS.items():
        if any(part.endswith(ending) for part in key.split(".")):
            return write(float(value))
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def label(key: str) -> str:
    """`memory.total_B` as `total`."""
    if key in LABELS:
        return LABELS[key]
    name = key.rpartition(".")[2]
    for ending in FORMATS:
        name = name.removesuffix(ending)
    return name.replace("_", " ")


def columns(found: Rows, figures: Sequence[str], series: Series | None) -> list[Column]:
    """The columns after the options: `figures`, or every number that differs, or one for each name of a `series`."""
    if series is None:
        keys = figures or found.differing()
        made = [Column(key, label(key), tuple(row.figure(key) for row in found.rows)) for key in keys]
        return [column for column in made if any(value is not None for value in column.values)]
    names, figure, *under = series
    key = under[0] if under else "rows"
    each = [row.figure(key) or () for row in found.rows]
    by_name = [{str(one[names]): one.get(figure) for one in some} for some in each]
    every = dict.fromkeys(name for one in by_name for name in one)
    made = [Column(figure, name, tuple(one.get(name) for one in by_name)) for name in every]
    return sorted(made, key=lambda column: -_wins(column, by_name))


def _wins(column: Column, by_name: Sequence[Mapping[str, Any]]) -> int:
    """Rows in which nothing is below it."""
    known = [(one.get(column.label), one) for one in by_name]
    return sum(value is not None and value <= min(v for v in one.values() if v is not None) for value, one in known)
