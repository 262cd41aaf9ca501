"""`lockstep find`: what answers a question, each with what it is and what to type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.output import given, show
from lockstep.show.views.parts.terminal import paragraph, table

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.show.verbs.find import Leads


def render(found: Leads, out: Console) -> None:
    """Prints a command, or the name of a page, and a line on each lead."""
    if not found.leads:
        paragraph(out, f"Nothing answers {found.question!r}. Try other words, or lockstep --help for all commands.")
        return
    rows = [
        (Text(one.kind, "dim"), Text.assemble((one.command or one.name, "bold"), "\n", one.says)) for one in found.leads
    ]
    out.print(table([("", "left"), ("", "text")], rows))


def ask(as_json: bool, words: list[str] | None = None, **options: object) -> None:
    """Joins the words of the command line to one question."""
    from lockstep.show.verbs.find import find

    found = find(*(words or ()), **given(options))
    show(found, as_json, render, ok=found.ok)


COMMAND = Command(
    examples=(
        "lockstep find does it fit",
        "lockstep find my run is slow",
        "lockstep find how much does local SGD save",
    ),
    more="Pages are those of the documentation. The exit code is 1 when nothing is found.",
    render=render,
    lists=False,
    ask=ask,
)
