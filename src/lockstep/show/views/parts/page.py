"""`--html FILE`: what a command shows, with its picture and the command itself, as one file.

While a verb is asked, `draw` and `show` of `output.py` look whether a page is wanted, and put on it what they have.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from importlib.util import find_spec
from inspect import signature, unwrap
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import typer

from lockstep import __version__
from lockstep.base.documents.files import writable, write_text
from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.records import dataclass, field
from lockstep.show.verbs.words.calling import keywords
from lockstep.show.views.parts.options import verb_function

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.show.views.parts.options import Options

ELSEWHERE = ("as_json", "plot", "csv", "html", "out", "machine", "moment")
"""Where an answer goes is not what is asked."""


@dataclass(slots=True)
class Page:
    """A file that is being made."""

    path: Path
    verb: str
    shell: str
    """The command that gives the same answer."""
    python: str
    """The call that does."""
    where: str = "--html"
    """The option that names the file."""
    figures: list[Figure] = field(default_factory=list)

    def picture(self, draw: Callable[[], Figure]) -> None:
        """Puts a picture on the page, where there is something to draw and matplotlib is installed."""
        if find_spec("matplotlib") is not None:
            try:
                self.figures.append(draw())
            except BadInput:
                return

    def write(self, answer: Any, render: Callable[[Any, Console], None]) -> None:
        """Writes the file."""
        from lockstep.show.views.parts.html import page_of

        more = asked_as(self.shell, self.python)
        text = page_of(f"lockstep {self.verb}", answer, render, self.figures, more)
        write_text(self.path, text, self.where)

    def write_refusal(self, no: Infeasible) -> None:
        """Writes why nothing fits, and what would help."""
        self.figures.clear()
        self.write(no, _render_refusal)
        sys.stderr.write(f"wrote {self.path}\n")


def _render_refusal(no: Infeasible, out: Console) -> None:
    from rich.text import Text

    from lockstep.show.views.parts.levers import levers_text

    out.print(Text("It does not fit", style="bold"))
    out.print(Text(str(no)))
    if no.levers is not None:
        out.print(Text(levers_text(no.levers)))


WANTED: ContextVar[Page | None] = ContextVar("WANTED", default=None)


@contextmanager
def page(
    html: str | None, verb: str, words: Mapping[str, object], options: Options, where: str = "--html"
) -> Iterator[None]:
    """What is drawn and shown inside goes to the file `html` too, if any; so does why nothing fits.

    Raises BadInput at `where`.
    """
    if html is None:
        yield
        return
    if not html.endswith((".html", ".htm")):
        raise BadInput(f"{Path(html).name!r} must end in .html", where)
    made = Page(writable(Path(html), where), verb, shell(verb, words, options), python(verb, words), where)
    before = WANTED.set(made)
    try:
        yield
    except Infeasible as no:
        made.write_refusal(no)
        raise
    finally:
        WANTED.reset(before)


def asked_as(command: str, call: str) -> str:
    """The end of a page: how it was asked."""
    said = "".join(
        f"<p>{title}</p><pre>{escape(text)}</pre>" for title, text in (("In a shell", command), ("In Python", call))
    )
    return f"<footer>{said}<p>Lockstep {__version__}</p></footer>"


def shell(verb: str, words: Mapping[str, object], options: Options) -> str:
    """The command line as it was given, without where its answer goes."""
    places, flags = ["lockstep", verb], []
    for name, (kind, default) in options.items():
        value, info = words.get(name), get_args(kind)[-1]
        if name in ELSEWHERE or value is None or value == default:
            continue
        if isinstance(value, Mapping):
            value = [f"{key}={each}" for key, each in value.items()]
        values = [str(each) for each in value] if isinstance(value, list | tuple) else [str(value)]
        if isinstance(info, typer.models.ArgumentInfo):
            places += values
        else:
            # Inside Annotated the first name of an option is in the place of its default.
            flag = max(filter(None, (info.default, *(info.param_decls or ()))), key=len)
            if isinstance(value, bool):
                flags.append(flag.split("/")[0 if value else -1])
            else:
                flags += [part for each in values for part in (flag, each)]
    return shlex.join(places + flags)


def python(verb: str, words: Mapping[str, object]) -> str:
    """The call of the library with the words that were given."""
    taken = list(signature(verb_function(verb)).parameters.values())
    several = next((one.name for one in taken if one.kind is one.VAR_POSITIONAL), "")
    known = {*keywords(unwrap(verb_function(verb))), several} - {*ELSEWHERE}
    given: dict[str, Any] = {name: one for name, one in words.items() if one is not None and name in known}
    values = given.pop(several, ())
    # What comes before several values has no name either.
    before = takewhile(lambda one: one.kind is not one.VAR_POSITIONAL, taken) if values else ()
    said = [repr(given.pop(one.name)) for one in before if one.name in given]
    said += [*map(repr, values), *(f"{name}={value!r}" for name, value in given.items())]
    return f"import lockstep\nlockstep.{verb}({', '.join(said)})"
