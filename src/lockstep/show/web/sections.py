"""What a view prints, as data that the page draws: the blocks of a third console, next to terminal and HTML.

    [{"kind": "title", "text": ...}, {"kind": "text", ...}, {"kind": "table", "title", "note", "columns", "rows"}, ...]

A cell is text, or {"text", "style"} where it has a colour, or {"share"} where a terminal shows a bar.
"""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lockstep.base.types.plain import Json
from lockstep.show.views.parts.html import COLOURS, WIDTH
from lockstep.show.views.parts.terminal import Bar, FileConsole


class Sections(FileConsole):
    """A console that keeps what is printed as blocks."""

    def __init__(self) -> None:
        super().__init__(file=StringIO(), width=WIDTH)
        self.blocks: list[Json] = []
        self.printed = False
        self.seen: set[str] = set()
        """Sentences of small print, which a page shows all of."""

    def print(self, *objects: Any, **_: Any) -> None:
        """One block for each object."""
        for one in objects:
            self._add(one)
        # A heading begins with an empty line, a verdict does not.
        self.printed = True

    def _add(self, one: object) -> None:
        if isinstance(one, Padding):
            return self._add(one.renderable)
        if isinstance(one, Table):
            return self._tabulate(one)
        text = one if isinstance(one, Text) else Text(str(one))
        if not text.plain.strip():
            return None
        spans = [str(span.style) for span in text.spans]
        if not self.printed and "bold" in f"{text.style} {spans}":
            self.blocks.append({"kind": "title", "text": text.plain.strip()})
        elif spans[:1] == ["bold"] and not text.style:
            first = text.spans[0].end
            self.blocks.append(
                {"kind": "heading", "title": text.plain[:first].strip(), "note": text.plain[first:].strip()}
            )
        else:
            self.blocks.append({"kind": "text", "text": text.plain.strip("\n"), "style": _colour(text)})
        return None

    def _tabulate(self, made: Table) -> None:
        """A table under the heading that was printed last; of a dash and a sentence in every row, a list."""
        titled: Json = {"title": "", "note": ""}
        if self.blocks and self.blocks[-1]["kind"] == "heading":
            titled = self.blocks.pop()
        columns = [
            {
                "title": _plain(one.header) if made.show_header else "",
                "right": one.justify == "right",
                "line": any(map(_one_line, one.cells)),
                "wraps": not one.no_wrap and one.justify != "right",
            }
            for one in made.columns
        ]
        rows = [list(map(cell, row)) for row in zip(*(one.cells for one in made.columns), strict=True)]
        if len(columns) == 2 and {row[0] for row in rows if isinstance(row[0], str)} == {"-"}:
            items = [row[1] for row in rows]
            self.blocks.append({**titled, "kind": "list", "items": items})
        else:
            self.blocks.append({**titled, "kind": "table", "columns": columns, "rows": rows})


def cell(one: object) -> str | Json:
    """A cell as data."""
    if isinstance(one, Bar):
        return {"share": one.frac}
    text = _plain(one)
    colour = _colour(one) if isinstance(one, Text) else ""
    return {"text": text, "style": colour} if colour else text


def _one_line(one: object) -> bool:
    """Whether a cell is cut where there is no room."""
    return isinstance(one, Text) and bool(one.no_wrap)


def _plain(one: object) -> str:
    return one.plain if isinstance(one, Text) else str(one)


def _colour(text: Text) -> str:
    styles = " ".join([str(text.style), *(str(span.style) for span in text.spans)]).split()
    return next((name for name in (*COLOURS, "dim") if name in styles), "")


def sections(render: Callable[[Any, Console], None], answer: Any) -> list[Json]:
    """The blocks of what a view prints of an answer."""
    out = Sections()
    render(answer, out)
    return out.blocks


def found(blocks: list[Json], title: str) -> Json | None:
    """The block under a heading."""
    return next((one for one in blocks if one.get("title") == title), None)
