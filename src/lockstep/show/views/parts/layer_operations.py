"""The operations of a layer that differ most from what they are priced at, in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.units import format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from lockstep.explain.layer_operations import LayerOperation


def furthest_from_price(rows: Sequence[LayerOperation], step_s: float, out: Console) -> None:
    """Prints them where they are a material part of a step."""
    from lockstep.explain.layer_operations import furthest

    if not (found := furthest(rows, step_s)):
        return
    measured, priced = (
        " and ".join(f"{format_time(getattr(one, name))} {one.way}" for one in found)
        for name in ("measured_s", "priced_s")
    )
    apart_s = sum(one.difference_s for one in found)
    out.print(
        f"Of a layer's operations, furthest from what is priced: {found[0].operation}. It takes {measured}, priced "
        f"{priced}; {'+' if apart_s > 0 else ''}{format_time(apart_s)} in a step."
    )
