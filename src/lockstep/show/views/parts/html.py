"""What a view prints, as HTML: paragraphs, headings, tables and lists instead of a terminal's lines.

    out = HtmlConsole()
    COMMAND.render(answer, out)
    out.body()                           a fragment, all text escaped
    document(title, fragment)            a file of its own, readable without script and offline

One renderer serves the terminal, the file, the report and the notebook: a view prints to a `Console` of rich, and this
one keeps the meaning of what is printed instead of its cells.
"""

from __future__ import annotations

import re
from html import escape
from importlib import resources
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lockstep.show.views.parts.terminal import FileConsole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.style import Style

    from lockstep.base.types.plain import Json

WIDTH = 120
"""Cells of a line, for what a view fits to a width: text timelines, tables of a sweep."""
COLOURS = ("green", "red", "yellow", "cyan")
ART = re.compile(r"\n.*\n|[│┤├└┘┌┐─|]{2}|\S {3,}\S")
"""Text whose spaces mean something."""
PLACES = re.compile(r' (?:d|x|y|width|height|transform|points)="[^"]*"')
HUNDREDTHS = re.compile(r"(\d\.\d\d)\d+")
POINT = r"(-?[\d.]+)"
RECTANGLE = re.compile(rf"M {POINT} {POINT} \nL \1 {POINT} \nL {POINT} \3 \nL \4 \2 \nz\n")
BARS = re.compile(r'<g( id="PolyCollection_\d+")>(.*?)</g>', re.DOTALL)
SHARED = re.compile(r' clip-path="[^"]*" style="[^"]*"')
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Nothing is fetched and no script runs, whatever a name holds; a page with views adds the hash of their script."""


class HtmlConsole(FileConsole):
    """A console that keeps what is printed as HTML; `alive`, with views that a script draws."""

    def __init__(self, alive: bool = False) -> None:
        super().__init__(file=StringIO(), width=WIDTH)
        self.alive = alive
        self.views: list[str] = []
        self.blocks: list[str] = []
        self.chapters: list[str] = []
        self.title = ""
        self.seen: set[str] = set()
        """Sentences of small print, which a page shows all of, and once."""

    def print(self, *objects: Any, **_: Any) -> None:
        """One block for each object."""
        self.blocks += [self._block(one) for one in objects]

    def chapter(self, title: str) -> None:
        """Begins a part of a longer page; what it prints has headings below this one."""
        self.chapters.append(title)
        self.blocks.append(f'<h2 class="chapter" id="part-{len(self.chapters)}">{escape(title)}</h2>')

    def picture(self, figure: Figure) -> None:
        """Puts a figure where the page is."""
        self.blocks.append(svg(figure))

    def view(self, kind: str, form: Callable[[], Json]) -> None:
        """Puts an interactive view where the page is; it adds to what can be read without script."""
        if self.alive:
            from lockstep.show.views.page.inline import block

            self.views.append(kind)
            self.blocks.append(block(kind, form()))

    def body(self) -> str:
        """All that was printed, and what was written past the printing."""
        written = self.file.getvalue() if isinstance(self.file, StringIO) else ""
        return "\n".join([*filter(None, self.blocks), *([f"<pre>{escape(written)}</pre>"] if written else [])])

    def _block(self, one: object) -> str:
        if isinstance(one, Padding):
            return self._block(one.renderable)
        if isinstance(one, Table):
            return self._list(one) if _is_list(one) else self._table(one)
        text = one if isinstance(one, Text) else Text(str(one))
        if ART.search(text.plain.strip("\n")):
            return f"<pre>{self.inline(text)}</pre>"
        if not self.title and "bold" in str(text.style):
            self.title = text.plain
            return f"<h1>{escape(text.plain)}</h1>"
        if text.plain == self.title:
            return ""
        parts = list(text.render(self))
        if parts and parts[0].style is not None and parts[0].style.bold and not text.style:
            first, rest = parts[0].text, text[len(parts[0].text) :]
            note = f" <small>{escape(rest.plain.strip())}</small>" if rest.plain.strip() else ""
            level = 3 if self.chapters else 2
            return f"<h{level}>{escape(first)}{note}</h{level}>"
        return f"<p>{self.inline(text)}</p>" if text.plain.strip() else ""

    def inline(self, cell: object) -> str:
        """A cell or a line, its styles as classes."""
        text = cell if isinstance(cell, Text) else Text(str(cell))
        whole = self.get_style(text.style, default="none")
        parts = ((one.text.strip("\n"), whole + one.style if one.style else whole) for one in text.render(self))
        return "".join(_styled(escape(part), style) for part, style in parts)

    def _table(self, made: Table) -> str:
        rows = list(zip(*(column.cells for column in made.columns), strict=True))
        kinds = [" class=r" if column.justify == "right" else "" for column in made.columns]

        def line(cells: Any, opens: str, closes: str) -> str:
            pairs = zip(cells, kinds, strict=True)
            return "".join(f"<{opens}{kind}>{self.inline(cell)}</{closes}>" for cell, kind in pairs)

        titles = line([one.header for one in made.columns], "th scope=col", "th")
        head = f"<thead><tr>{titles}</tr></thead>" if made.show_header else ""
        body = "".join(f"<tr>{line(row, 'td', 'td')}</tr>" for row in rows)
        return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'

    def _list(self, made: Table) -> str:
        return f"<ul>{''.join(f'<li>{self.inline(cell)}</li>' for cell in made.columns[1].cells)}</ul>"


def _is_list(made: Table) -> bool:
    """Small print: a dash and a sentence in every row."""
    return len(made.columns) == 2 and {str(cell) for cell in made.columns[0].cells} == {"-"}


def _styled(text: str, style: Style) -> str:
    names = [name for name in ("bold", "dim") if getattr(style, name)]
    names += [style.color.name] if style.color is not None and style.color.name in COLOURS else []
    return f'<span class="{" ".join(names)}">{text}</span>' if names and text else text


def shown(answer: Any, render: Callable[[Any, Console], None], figures: Sequence[Figure] = ()) -> str:
    """What a view prints of an answer, with pictures below its verdict."""
    return _written(HtmlConsole(), answer, render, figures)


def page_of(
    title: str, answer: Any, render: Callable[[Any, Console], None], figures: Sequence[Figure] = (), more: str = ""
) -> str:
    """The same as a file of its own, with interactive views where the answer has some, and `more` at its end."""
    out = HtmlConsole(alive=True)
    body = _written(out, answer, render, figures)
    return document(title, body + more, views=bool(out.views))


def _written(out: HtmlConsole, answer: Any, render: Callable[[Any, Console], None], figures: Sequence[Figure]) -> str:
    render(answer, out)
    verdict, heading, rest = out.body().partition("<h2>")
    links = " · ".join(f'<a href="#part-{at}">{escape(title)}</a>' for at, title in enumerate(out.chapters, 1))
    title, closes, more = verdict.strip().rpartition("</h1>")
    contents = f"\n<nav>{links}</nav>" if links else ""
    return "\n".join([title + closes + contents + more, *map(svg, figures), heading + rest])


def svg(figure: Figure) -> str:
    """A figure inside a page; its words stand for it where it cannot be seen."""
    from lockstep.show.views.parts.figure import svg_text

    text = svg_text(figure)
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    return f"<figure>{smaller(text.strip())}</figure>"


def smaller(picture: str) -> str:
    """The same SVG in fewer letters: hundredths of a point, rectangles as such, a style that all of a group share once.

    A step's bars are a thousand rectangles, each with its style, of which a page would otherwise consist.
    """
    picture = PLACES.sub(lambda tag: HUNDREDTHS.sub(r"\1", tag[0]), picture)
    picture = RECTANGLE.sub(r"M\1 \2V\3H\4V\2z", picture)
    return BARS.sub(_once, picture)


def _once(group: re.Match[str]) -> str:
    """A group of bars with the style of all its paths, if it is one."""
    found = set(SHARED.findall(group[2]))
    return f"<g{found.pop()}{group[1]}>{SHARED.sub('', group[2])}</g>" if len(found) == 1 else group[0]


def style() -> str:
    """The style sheet of fragments, which touches nothing outside of `.lockstep`."""
    return resources.files("lockstep.show.views.parts").joinpath("page.css").read_text(encoding="utf-8")


def fragment(body: str) -> str:
    """HTML that brings its own style, as a notebook shows it."""
    return f'<style>{style()}</style><div class="lockstep">{body}</div>'


def document(title: str, body: str, views: bool = False) -> str:
    """A file of its own, with the script of `views` if it has some."""
    policy, sheet, end = POLICY, style(), ""
    if views:
        from lockstep.show.views.page import inline

        policy, sheet = f"{POLICY}; script-src {inline.script_source()}", sheet + inline.read("views.css")
        end = f"<script>{inline.script()}</script>"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{escape(title)}</title><style>{sheet}</style></head>\n"
        f'<body class="lockstep"><main>\n{body}\n</main>{end}</body></html>\n'
    )
