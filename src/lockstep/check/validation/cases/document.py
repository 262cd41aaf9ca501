"""Writes `docs/case-studies.md`: `python tools/pages.py --write docs/case-studies.md`.

A test compares the page with what this returns, so the page changes in the commit that changes a prediction.
"""

from __future__ import annotations

from lockstep.base.units import format_frac
from lockstep.check.validation.cases.compare import TOLERANCE_FRAC, Comparison, Row, Survey, format_quantity
from lockstep.check.validation.cases.study import CONFIGURATIONS, PARTLY, PLANNED, PUBLIC

HEAD = """# Published runs, predicted

Training runs that were described in public, each a file of `src/lockstep/check/validation/cases/studies/` with the
source of every number. `lockstep case` prints them a line each, `lockstep case NAME` one of them with layouts, sources
and what is unknown. An error is predicted / published - 1. Durations with downtime hold failures and checkpoints as the
[campaign](use/campaign.md) model expects them of the cluster.

No constant is tuned to a run: device curves come from the [validation tables](validation.md), failure rates and storage
from the catalog. Two runs take the speed of their kernels from a third of the same software and say so: they test what
more devices and another network change. A miss beyond {tolerance} carries its reason, which is removed when the miss is
gone.
"""

MEANING = {
    PUBLIC: "Layout, devices, batch and length are printed; nothing is chosen here.",
    PARTLY: "What no source says is assumed, and said below.",
    PLANNED: "No layout was published, so the planner's best stands in for it, with today's kernels and no power cap: "
    "the real run took longer, and the error says by how much. Nothing is judged here.",
}


def page(found: Survey) -> str:
    """The whole page as Markdown."""
    parts = [HEAD.format(tolerance=format_frac(TOLERANCE_FRAC)), _verdict(found)]
    for name in CONFIGURATIONS:
        studies = [one for one in found.comparisons if one.study.configuration == name]
        parts.append(f"## {name.capitalize()}\n\n{MEANING[name]}\n")
        parts.append("\n".join(_table(studies)) + "\n")
        if name != PLANNED:
            parts.extend(note for one in studies if (note := _notes(one)))
    return "\n".join(parts)


def _verdict(found: Survey) -> str:
    lines = []
    for name in (PUBLIC, PARTLY):
        rows = found.durations(name)
        within = sum(row.within is True for row in rows)
        paced = sum(bool(one.study.pace) for one in found.comparisons if one.study.configuration == name)
        said = f", {paced} of them with kernels timed in another run" if paced else ""
        limit = format_frac(TOLERANCE_FRAC)
        lines.append(f"- {name}: {within} of {len(rows)} runs of known length within {limit}{said}")
    return "\n".join(lines) + "\n"


def _table(studies: list[Comparison]) -> list[str]:
    lines = ["| case | quantity | published | predicted | error |", "|---|---|---|---|---|"]
    return lines + [_line(one, row) for one in studies for row in one.rows]


def _line(one: Comparison, row: Row) -> str:
    quantity = row.published.quantity
    published = format_quantity(quantity, row.published.value)
    known = row.predicted is not None and row.error_frac is not None
    predicted = format_quantity(quantity, row.predicted) if row.predicted is not None else "unknown"
    error = f"{100 * (row.error_frac or 0.0):+.0f} %" if known else ""
    return f"| {one.study.name} | {_words(row)} | {published} | {predicted} | {error} |"


def _words(row: Row) -> str:
    """The quantity in words, of which stretch."""
    of = f", {row.published.stretch}" if row.published.stretch not in ("", "run") else ""
    return row.published.quantity + (" with downtime" if row.published.downtime else "") + of


def _notes(one: Comparison) -> str:
    """Why a study misses, and what is unknown or assumed."""
    said = [f"- *{_words(row)}*: {row.published.why}." for row in one.rows if row.published.why]
    said += [f"- unknown: {text}" for text in one.study.unknown]
    said += [f"- assumed: {text}" for text in one.assumptions()]
    return "\n".join([f"### {one.study.title}", "", *said, ""]) if said else ""
