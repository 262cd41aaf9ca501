"""Crossovers for a person: which algorithm wins up to which size."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lockstep.collectives import Crossover
from lockstep.report.terminal import heading, indented, table
from lockstep.units import format_size


def render(found: Crossover, out: Console) -> None:
    """Prints the regions."""
    if found.crossover_B is None:
        title = f"{found.regions[0].best} is the fastest at every size"
    else:
        first, second = found.regions[0].best, found.regions[1].best
        title = f"{first} up to {format_size(found.crossover_B)}, then {second}"
    out.print(Text(title, style="bold"))
    out.print(f"{found.op} on {found.ranks} ranks; n* = latency x bandwidth = {format_size(found.n_star_B)}")
    heading(out, "Regions")
    rows = [
        (
            format_size(region.from_B),
            "no end" if region.to_B is None else format_size(region.to_B),
            "" if region.to_B is None else f"{region.to_B:,.1f} B",
            region.best,
        )
        for region in found.regions
    ]
    indented(out, table([("from", "right"), ("to", "right"), ("exactly", "right"), ("fastest", "left")], rows))
