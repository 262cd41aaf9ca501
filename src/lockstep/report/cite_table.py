"""Citations for a person: one paragraph per source."""

from __future__ import annotations

from rich.console import Console

from lockstep.verbs.cite import References
from lockstep.report.terminal import table


def render(found: References, out: Console) -> None:
    """Prints key and text of every citation."""
    out.print(table([("key", "left"), ("source", "text")], ((one.key, one.text) for one in found.citations)))
