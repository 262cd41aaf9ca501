"""An export for a person, or for a file: the text of the other tool, nothing around it."""

from __future__ import annotations

from rich.console import Console

from lockstep.verbs.export import Export


def render(found: Export, out: Console) -> None:
    """Prints the text as it is, never wrapped."""
    out.file.write(found.text if found.text.endswith("\n") else found.text + "\n")
