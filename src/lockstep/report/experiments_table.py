"""The experiments of the lab for a person: names and questions."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lockstep.api import Experiments
from lockstep.report.terminal import heading, indented, table


def render(found: Experiments, out: Console) -> None:
    """Prints the list."""
    out.print(Text(f"{len(found.experiments)} experiments: lockstep converge EXPERIMENT", style="bold"))
    heading(out, "Experiments", "settings of each with --json")
    rows = [[one.name, one.question] for one in found.experiments]
    indented(out, table([("", "left"), ("question", "line")], rows))
