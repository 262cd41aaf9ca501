"""The ways to train for a person: names by family, and what each does."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console
from rich.text import Text

from lockstep.verbs.train import TrainingMethods
from lockstep.report.terminal import heading, indented, table


def render(found: TrainingMethods, out: Console) -> None:
    """Prints the list."""
    out.print(Text(f"{len(found.methods)} methods: lockstep train METHOD --ranks N", style="bold"))
    for family, members in groupby(found.methods, key=lambda one: one.family):
        heading(out, family.capitalize())
        rows = [[one.name, one.summary] for one in members]
        indented(out, table([("", "left"), ("", "text")], rows))
    out.print()
    out.print(Text("Settings, sources and models of each: lockstep train --json", style="dim"))
