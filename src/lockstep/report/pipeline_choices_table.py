"""All schedules of a pipeline for a person: the front of utilisation against memory, then the rest."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lockstep.verbs.pipeline import PipelineChoices
from lockstep.parallel.pipeline import Point
from lockstep.report.terminal import heading, indented, small_print, table
from lockstep.units import format_frac

ROWS = 12
_TITLES = [
    ("schedule", "left"), ("stages", "right"), ("micro-batches", "right"), ("chunks", "right"), ("busy", "right"),
    ("memory", "right"), ("messages", "right"),
]  # fmt: skip


def render(found: PipelineChoices, out: Console) -> None:
    """Prints the front, fastest first, and the best of the others."""
    best = max(found.points, key=lambda point: point.utilization_frac)
    out.print(Text(f"{best.schedule}: {format_frac(best.utilization_frac)} busy", style="bold"))
    out.print(f"{len(found.points)} ways, {len(found.front)} of them on the front.")
    front = list(reversed(found.front))
    others = sorted(set(found.points) - set(front), key=lambda point: -point.utilization_frac)
    for title, points in (("Front", front), ("Others", others)):
        if points:
            shown = "" if len(points) <= ROWS else f"first {ROWS} of {len(points)}"
            heading(out, title, shown)
            indented(out, table(_TITLES, (_row(point) for point in points[:ROWS])))
    said = (
        "memory: activations held at most by one device, in units of one micro-batch through the whole model",
        "messages: sent by the busiest device per step",
    )
    small_print(out, "Meaning", said, len(said))


def _row(point: Point) -> list[str]:
    return [
        point.schedule, str(point.stages), f"{point.microbatches:,}", str(point.chunks),
        format_frac(point.utilization_frac), f"{point.live_models:.3g}", f"{point.messages:,}",
    ]  # fmt: skip
