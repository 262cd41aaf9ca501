"""`lockstep cite`: the papers and sources behind an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.show.verbs.words.option import Switch
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.options import flags
from lockstep.show.views.parts.output import given, show
from lockstep.show.views.parts.terminal import table

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.show.verbs.cite import References


def render(found: References, out: Console) -> None:
    """Prints key and text of every citation."""
    out.print(table([("key", "left"), ("source", "text")], ((one.key, one.text) for one in found.citations)))


def render_bibtex(found: References, out: Console) -> None:
    """Prints the entries, never wrapped."""
    out.file.write("\n\n".join(one.bibtex.strip() for one in found.citations) + "\n")


BIBTEX = flags(bibtex=Switch("Print BibTeX entries."))


def ask(as_json: bool, bibtex: bool | None, **words: object) -> None:
    """Prints BibTeX where it is asked for."""
    from lockstep.show.verbs.cite import cite

    show(cite(**given(words)), as_json, render_bibtex if bibtex else render)


COMMAND = Command(
    also=BIBTEX,
    examples=("lockstep cite", "lockstep cite llama3-8b -c dgx-h100:4 --batch 256 --bibtex"),
    more="Without a MODEL, print all that Lockstep knows.",
    render=render,
    lists=False,
    ask=ask,
)
