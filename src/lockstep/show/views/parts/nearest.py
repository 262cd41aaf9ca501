"""Published steps that are most like a question, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.units import format_count, format_frac, format_time

if TYPE_CHECKING:
    from lockstep.check.validation.nearest import Near

TITLE = "Nearest published steps"
NOTE = "predicted by a fit that knows no step of the same software"
TITLES = (
    ("published step", "left"), ("devices", "right"), ("software", "left"), ("format", "left"), ("measured", "right"),
    ("predicted", "right"), ("error", "right"),
)  # fmt: skip


def row(near: Near) -> list[str]:
    """One of them."""
    case = near.case
    return [
        f"{case.job.model.name} ({near.table} {case.row.partition(' ')[0]})",
        f"{format_count(case.job.devices)} x {case.cluster.device.name}",
        case.job.recipe.software.name,
        case.job.recipe.dtype,
        format_time(case.measured),
        format_time(near.predicted_s),
        f"{'+' if near.error_frac > 0 else '-'}{format_frac(abs(near.error_frac), 2)}",
    ]
