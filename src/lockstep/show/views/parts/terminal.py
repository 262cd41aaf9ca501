"""The house style of terminal output: a verdict, then compact tables under short headings, then small print.

Rich decides width and colour: a terminal's own, 80 columns without one, no colour with NO_COLOR.
"""

from __future__ import annotations

import re
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.containers import Lines
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lockstep.base.types.plain import Json

BAR = 12
"""Cells of a full bar."""
BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|[kMGTP]?i?B|[num]?s|min|h|d|y)(?!\w))")
GLUE = "\ue000"
"""A letter that no text has, in the place of a space that stays on its line."""


class FileConsole(Console):
    """A console that writes to its file alone. In a Jupyter kernel rich would add each line to the cell's outputs."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, force_jupyter=False, **options)


class _Prose(Text):
    """Lines break between words, and never between a number and its unit."""

    def wrap(self, console: Console, width: int, **options: Any) -> Lines:
        """The lines of the text in so many cells."""
        glued = self.copy()
        glued.plain = BEFORE_UNIT.sub(GLUE, self.plain)
        lines = glued.wrap(console, width, **options)
        for line in lines:
            line.plain = line.plain.replace(GLUE, " ")
        return lines


def console() -> Console:
    """Standard output."""
    return FileConsole()


def heading(out: Console, title: str, note: str = "") -> None:
    """A blank line and a bold title with a dim remark."""
    out.print()
    out.print(Text.assemble((title, "bold"), ("  " + note if note else "", "dim")))


def paragraph(out: Console, text: str, style: str = "", indent: int = 0) -> None:
    """Sentences, whose lines break between words and never between a number and its unit."""
    # What is padded reaches the console as it is, where texts are joined into a new one.
    out.print(Padding(_Prose(text, style), (0, 0, 0, indent), expand=False))


def chapter(out: Console, title: str) -> None:
    """The title of a part of a longer answer."""
    opened = getattr(out, "chapter", None)
    if opened is None:
        out.print(Text(f"\n{title}\n", style="bold underline"))
    else:
        opened(title)


def interactive(out: Console, kind: str, form: Callable[[], Json]) -> None:
    """Puts an interactive view on a page that a browser opens; elsewhere nothing."""
    if shows := getattr(out, "view", None):
        shows(kind, form)


def table(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str | Text]]) -> Table:
    """Rows under a dim header; each column is (title, kind).

    Kinds: left and right keep their width; text wraps where there is no room, line is cut there.
    """
    titled = any(title for title, _ in columns)
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=titled)
    for title, kind in columns:
        justify: JustifyMethod = "right" if kind == "right" else "left"
        made.add_column(title, justify=justify, no_wrap=kind in ("left", "right"), overflow="ellipsis")
    cut = [kind == "line" for _, kind in columns]
    for row in rows:
        made.add_row(*(one_line(cell) if one else cell for cell, one in zip(row, cut, strict=True)))
    return made


def one_line(cell: str | Text) -> Text:
    """A cell that is cut, not wrapped, where there is no room."""
    return Text(str(cell), no_wrap=True, overflow="ellipsis")


def indented(out: Console, inner: Table | Text) -> None:
    """Prints two cells in; a table that is too wide stands closer together and breaks its titles before it is cut."""
    if isinstance(inner, Table) and table_width(inner, 2) > out.width - 2:
        inner.padding = (0, 1, 0, 0)
        if table_width(inner, 1) - 1 > out.width - 2:
            for column in inner.columns:
                column.header = _broken(column) if column.no_wrap else column.header
    out.print(Padding(inner, (0, 0, 0, 2), expand=False))


def table_width(made: Table, gap: int) -> int:
    """Cells of a table whose columns are not cut, each with a gap; columns that wrap take what is left."""
    kept = (column for column in made.columns if column.no_wrap)
    lines = [[line for cell in (one.header, *one.cells) for line in str(cell).split("\n")] for one in kept]
    return sum(max(map(cell_len, each)) for each in lines) + gap * len(made.columns)


def _broken(column: Column) -> str:
    """The title of a column on as many lines as make it no wider than its cells, between words."""
    room = max((cell_len(str(cell)) for cell in column.cells), default=1)
    return "\n".join(wrap(str(column.header), max(room, 1), break_long_words=False, break_on_hyphens=False))


class Bar(Text):
    """A bar as a terminal shows it, and the fraction that it stands for."""

    frac: float = 0.0


def bar(frac: float, cells: int = BAR) -> Bar:
    """`frac` of a bar of `cells` cells, in eighths."""
    shown = min(max(frac, 0.0), 1.0)
    eighths = round(shown * cells * 8)
    partial = " ▏▎▍▌▋▊▉"[eighths % 8].strip()
    made = Bar("█" * (eighths // 8) + partial, style="cyan")
    made.frac = shown
    return made


def small_print(out: Console, title: str, sentences: Sequence[str], shown: int) -> None:
    """The first `shown` sentences as a dim list, and how many more there are; on a page all that were not there yet."""
    seen: set[str] | None = getattr(out, "seen", None)
    if seen is not None:
        sentences = [one for one in sentences if one not in seen]
        seen.update(sentences)
        shown = len(sentences)
    if not sentences:
        return
    more = len(sentences) - shown
    heading(out, title, f"{more} more with --json" if more > 0 else "")
    listed = Table.grid(padding=(0, 1, 0, 0))
    listed.add_column(style="dim", no_wrap=True)
    listed.add_column(style="dim")
    for sentence in sentences[:shown]:
        listed.add_row("-", sentence)
    indented(out, listed)
