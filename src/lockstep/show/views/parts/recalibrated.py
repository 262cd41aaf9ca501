"""The cluster as a run shows it: its numbers with intervals, matrix products by shape, the best layout on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.units import format_frac, format_size, format_time
from lockstep.show.views.parts.layout_columns import layout_words
from lockstep.show.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.decide.planner.estimate import Estimate
    from lockstep.explain.product_rates import ProductFit
    from lockstep.explain.recalibrate import Recalibrated

SHAPES = 8


def render_recalibrated(made: Recalibrated, out: Console) -> None:
    """Prints what was found, what the run does not tell, and where it was written."""
    heading(out, "The cluster as this run shows it", f"{format_frac(made.error_frac)} error of other step times")
    rows = [
        (
            one.what,
            *(_found(end, one.unit) for end in (one.value, *(one.ci95 or (None, None)))),
            one.unit if one.unit != "s" else "",
        )
        for one in made.factors
    ]
    columns = [("", "left"), ("found", "right"), ("95 %", "right"), ("", "right"), ("", "left")]
    indented(out, table(columns, rows))
    if made.products is not None:
        _products(made.products, out)
    for note in made.notes:
        out.print(f"{note[0].upper()}{note[1:]}.")
    if made.replanned is not None:
        best, own = made.replanned.best, made.replanned.own
        saved = 1 - best.step_time_s / own.step_time_s
        out.print(
            f"On it the best layout is {layout_words(best.layout)}: {format_time(best.step_time_s)} per step, "
            f"{format_frac(saved, 2)} less than yours is predicted to take there; {filled(best)}."
            if saved > 0.001
            else "On it your layout is the best one."
        )
    if made.path is not None:
        out.print(f"Written to {made.path}: give it as --cluster.")


def _found(value: float | None, unit: str) -> str:
    """A number of the cluster as its unit asks."""
    if value is None:
        return ""
    return format_time(value) if unit == "s" else f"{value:.3f}"


def _products(found: ProductFit, out: Console) -> None:
    """Rates of products by shape, and how far the curve was and is from them."""
    shown = found.products[:SHAPES]
    more = f"; {len(found.products) - SHAPES} more with --json" if len(found.products) > SHAPES else ""
    heading(out, "Matrix products by shape", f"m x n x k; errors of the device's curve{more}")
    rows = [
        (
            f"{one.m} x {one.n} x {one.k}{f', {one.count} times' if one.count > 1 else ''}", one.dtype,
            f"{one.flops_per_s / 1e12:.4g} TFLOP/s", f"{before:+.1%}", f"{after:+.1%}",
        )
        for one, before, after in zip(shown, found.before_frac, found.after_frac, strict=False)
    ]  # fmt: skip
    columns = [("shape", "left"), ("format", "left"), ("rate", "right"), ("before", "right"), ("refitted", "right")]
    indented(out, table(columns, rows))


def filled(found: Estimate) -> str:
    """Memory of the fullest device, of what it has."""
    return f"{format_size(float(found.memory.total_B))} of {format_size(found.memory.capacity_B)}"
