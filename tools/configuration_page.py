"""The page of every configuration format that is read as a run: what becomes of each of its words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from lockstep.decide.planner.imports import READERS
from lockstep.decide.planner.imports.formats import Format, described, format_of

HEAD = """# Words of other software's configurations

A file of one of these formats stands for MODEL, or follows a model (`llama3-8b@ds.json`); see
[from and to other software](../use/other-software.md). Every word of it becomes one of five things, which `--json`
lists (`imported`): *read*; *harmless*, as it changes neither time nor memory; *yours*, as no plan can decide it;
*unknown*, which includes what is known to change a run and is not modelled; or *contradictory*. A value of another kind
is refused. So is an unknown word whose name is like those that change time or memory, unless `--accept-unknown WORD`
leaves it out.
"""


def page() -> str:
    """The whole page, one section per format."""
    return "\n".join((HEAD, *(line for key in sorted(READERS) for line in _section(format_of(key)))))


def _section(format: Format) -> Iterator[str]:
    yield f"## {format.name}\n"
    yield f"Words of {format.software}. Source: {format.source}.\n"
    if format.only:
        yield f"Recognised by any of {_listed(format.only)}.\n"
    else:
        yield f"Recognised, where no format has words of its own, by any of {_listed(format.shared)}.\n"
    above = format_of(format.extends) if format.extends else None
    if above is not None:
        yield f"It has the words of {above.name} too.\n"
        format = _own(format, above)
    yield "| word | value | what becomes of it |\n|---|---|---|"
    for word, (kind, said, default) in format.read.items():
        without = "" if default is None else f"; without it {str(default).lower()}"
        yield _row(f"`{word}`", described(kind), f"read as {said}{without}")
    for word, (kind, why, _) in format.left_out.items():
        yield _row(f"`{word}`", described(kind), f"left out and said: {why}")
    yield ""
    if format.yours:
        yield f"Yours: {_listed(format.yours)}.\n"
    if format.harmless:
        yield f"Harmless: {_listed(format.harmless)}.\n"


def _own(format: Format, above: Format) -> Format:
    """A format without the words that it has as another one has them."""
    named = ("read", "left_out", "harmless", "yours")
    words = {name: (getattr(format, name), getattr(above, name)) for name in named}
    return replace(format, **{
        name: {word: kind for word, kind in own.items() if other.get(word) != kind}
        for name, (own, other) in words.items()
    })  # fmt: skip


def _row(*texts: str) -> str:
    return "| " + " | ".join(text.replace("|", r"\|") for text in texts) + " |"


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
