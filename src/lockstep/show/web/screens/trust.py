"""Where the number comes from: its interval, the published steps nearest to it, and what is assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.types.plain import Json
from lockstep.base.units import format_frac, format_time
from lockstep.check.validation.nearest import nearest
from lockstep.show.verbs.cite import cite
from lockstep.show.views.parts import nearest as shown
from lockstep.show.views.support import MEANING
from lockstep.show.web.parts import figure, headed, with_best
from lockstep.show.web.screen import LAYOUT, QUESTION, RECIPE, Screen

if TYPE_CHECKING:
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.show.web.asked import Asked

ROOM = 0.2
"""Of an interval's width, what its scale shows on either side."""
KINDS = ("measured", "fitted", "datasheet", "assumed")
"""How numbers come about."""
PAPERS = "papers"


def data(one: Estimate, asked: Asked) -> Json:
    """The interval, what it rests on, and every assumption by how it comes about."""
    between, rests = one.interval, one.support
    wide_s = (between.high - between.low) * (1 + 2 * ROOM)
    start_s = between.low - (between.high - between.low) * ROOM
    level = format_frac(between.level_frac)
    error = "unknown" if rests.error_frac is None else format_frac(rests.error_frac)
    return {
        **headed(one, f"A step takes {format_time(between.low)} to {format_time(between.high)} in {level} of cases"),
        "level": f"{level} of cases lie between the ends",
        "interval": {
            "low": format_time(between.low),
            "text": format_time(one.step_time_s),
            "high": format_time(between.high),
            "low_share": (between.low - start_s) / wide_s,
            "share": (one.step_time_s - start_s) / wide_s,
            "high_share": (between.high - start_s) / wide_s,
        },
        "figures": [
            figure("Rests on", rests.level, MEANING[rests.level]),
            figure("Published steps", f"{rests.rows:,}", f"of {rests.device} with {rests.stack} in {rests.dtype}"),
            figure("Typical error", error, "median of these steps, nothing of their software fitted to"
                   if rests.rows else "of the device's curve"),
        ],
        "assumptions": {"kind": "list", "title": "Assumptions", "note": "", "items": list(one.assumptions())},
        "sources": _sources(one),
    }  # fmt: skip


def _sources(one: Estimate) -> list[Json]:
    """The citations by how a number comes about, which their texts end with; papers after them."""
    of: dict[str, list[str]] = {kind: [] for kind in (*KINDS, PAPERS)}
    for source in cite(one).citations:
        kind = source.text.rpartition("[")[2].rstrip("]")
        of[kind if kind in KINDS else PAPERS].append(source.text)
    return [
        {"kind": "list", "title": kind.capitalize(), "note": "", "items": said} for kind, said in of.items() if said
    ]


def later(one: Estimate, asked: Asked) -> Json:
    """The published steps that are most like this one."""
    found = asked.kept(("nearest", one.job, one.layout, one.cluster), lambda: nearest(one))
    block = {
        "kind": "table",
        "title": shown.TITLE,
        "note": shown.NOTE,
        "columns": [{"title": title, "right": kind == "right"} for title, kind in shown.TITLES],
        "rows": [shown.row(near) for near in found],
    }
    return {"blocks": [block]}


SCREEN = Screen(
    title="Trust", verb="estimate", fields=(*QUESTION, *RECIPE, *LAYOUT), words=with_best, data=data, later=later
)
