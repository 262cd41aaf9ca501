"""The answer of a screen in every form: what the page draws, JSON, rows, one file, a picture."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO, StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from lockstep.base.documents import SCHEMA
from lockstep.base.errors import BadInput, LockstepError, not_installed
from lockstep.base.rows.files import flattened
from lockstep.base.types.plain import Json, plain
from lockstep.show.views.page.inline import script_source
from lockstep.show.views.parts.card import Card
from lockstep.show.views.parts.html import POLICY, page_of
from lockstep.show.views.parts.notebook import figures_of, view_of
from lockstep.show.views.parts.output import finite
from lockstep.show.views.parts.page import asked_as, python, shell
from lockstep.show.web.asked import shell_words
from lockstep.show.web.parts import timeline_of

if TYPE_CHECKING:
    from lockstep.show.views.parts.command import Command
    from lockstep.show.views.parts.options import Options
    from lockstep.show.web.asked import Asked
    from lockstep.show.web.screen import Screen


PICTURES = {"png": "image/png", "svg": "image/svg+xml"}
"""Endings of cards."""


def answer_of(screen: Screen, asked: Asked) -> tuple[Any, Mapping[str, Any]]:
    """The answer, and the words that it is of."""
    words = asked.words if screen.words is None else screen.words(asked)
    return (asked.ask(screen.verb, words) if screen.answer is None else screen.answer(asked)), words


def verb_of(screen: Screen, asked: Asked) -> str:
    """The verb whose answer a screen shows."""
    return screen.verb if screen.asks is None else screen.asks(asked)


def command_of(verb: str) -> Command:
    """How a verb shows its answer."""
    found: Command = import_module(f"lockstep.show.views.{verb}").COMMAND
    return found


def page_data(screen: Screen, asked: Asked) -> Json:
    """What the page draws, and the question as a command and as a call."""
    answer, words = _drawn(screen, asked)
    said, call = written(verb_of(screen, asked), words, asked)
    drawn = finite(plain(screen.data(answer, asked)))
    return {"title": screen.title, "shell": said, "python": call, "words": dict(words), "data": drawn}


def _drawn(screen: Screen, asked: Asked) -> tuple[Any, Mapping[str, Any]]:
    """What `data` takes, and its words."""
    if screen.sooner is not None:
        return screen.sooner(asked)
    try:
        return answer_of(screen, asked)
    except LockstepError as no:
        if not screen.no_is_data or screen.words is None:
            raise
        return no, screen.words(asked)


def later_data(screen: Screen, asked: Asked) -> Json:
    """What the page draws when it has drawn the rest."""
    answer, _ = answer_of(screen, asked)
    return {"data": {} if screen.later is None else finite(plain(screen.later(answer, asked)))}


def written(verb: str, words: Mapping[str, Any], asked: Asked) -> tuple[str, str]:
    """The command and the call that give the same answer."""
    from_address = all(isinstance(value, str) for value in words.values())
    said = shell_words(verb, words, asked.server.uploads.names) if from_address else dict(words)
    return shell(verb, said, _options(verb)), python(verb, said)


@cache
def _options(verb: str) -> Options:
    return command_of(verb).options(verb)


def as_json(screen: Screen, asked: Asked) -> Response:
    """What `--json` prints."""
    answer, _ = answer_of(screen, asked)
    body = json.dumps({"schema": SCHEMA, **finite(plain(answer.to_dict()))}, allow_nan=False, ensure_ascii=False)
    return Response(body, media_type="application/json")


def as_csv(screen: Screen, asked: Asked) -> Response:
    """What `table()` gives, a line each."""
    answer, _ = answer_of(screen, asked)
    rows = [flattened(row) for row in answer.table()]
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return Response(out.getvalue(), media_type="text/csv", headers=_kept(screen, "csv"))


def as_html(screen: Screen, asked: Asked) -> Response:
    """One file with pictures, that opens offline."""
    verb = screen.saves or verb_of(screen, asked)
    answer, words = answer_of(screen, asked)
    if screen.saves:
        answer, words = asked.ask(verb, asked.words), asked.words
    more = asked_as(*written(verb, words, asked))
    text = page_of(f"lockstep {verb}", answer, view_of(answer)[0], figures_of(answer, lambda one: one.plot()), more)
    policy = f"{POLICY}; script-src {script_source()}"
    return Response(text, media_type="text/html", headers={**_kept(screen, "html"), "content-security-policy": policy})


def as_svg(screen: Screen, asked: Asked) -> Response:
    """The picture of the answer. Raises BadInput where there is none."""
    from lockstep.show.views.parts.figure import save_figure

    answer, _ = answer_of(screen, asked)
    made = screen.picture_at(asked) if screen.picture_at else screen.picture
    figures = figures_of(answer, made or command_of(verb_of(screen, asked)).picture)
    if not figures:
        raise BadInput("this answer has no picture", "picture")
    out = BytesIO()
    save_figure(figures[0], out, ".svg")
    return Response(out.getvalue(), media_type="image/svg+xml", headers={"content-security-policy": POLICY})


def as_card(screen: Screen, asked: Asked, ending: str) -> Response:
    """What `--card` draws. Raises BadInput where matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise not_installed("pictures need matplotlib", "plot")
    from lockstep.show.views.parts.figure import save_figure

    answer, words = answer_of(screen, asked)
    verb = verb_of(screen, asked)
    said, _ = written(verb, words, asked)
    card = Card(Path(f"card.{ending}"), said, command_of(verb).figures, command_of(verb).series)
    out = BytesIO()
    save_figure(card.drawn(plain(answer), partial(view_of(answer)[0], answer)), out, card.path.suffix)
    return Response(out.getvalue(), media_type=PICTURES[ending], headers={"content-security-policy": POLICY})


def as_trace(screen: Screen, asked: Asked) -> Response:
    """The timeline of the answer for Perfetto. Raises BadInput where there is none."""
    answer, _ = answer_of(screen, asked)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json.gz"
        (screen.trace or write_timeline)(answer, path)
        body = path.read_bytes()
    return Response(body, media_type="application/gzip", headers=_kept(screen, "json.gz"))


def write_timeline(answer: Any, path: Path) -> None:
    """Writes when things happen in an answer. Raises BadInput where it does not say so."""
    from lockstep.simulate.program import write_trace

    timeline = timeline_of(answer)
    if timeline is None:
        raise BadInput("this answer has no timeline", "trace")
    write_trace(timeline, path)


FORMS: Mapping[str, Callable[[Screen, Asked], Response]] = {
    "json": as_json, "csv": as_csv, "html": as_html, "svg": as_svg, "trace": as_trace,
    **{f"card.{ending}": partial(as_card, ending=ending) for ending in PICTURES},
}  # fmt: skip
"""By the ending of the address."""


def _kept(screen: Screen, ending: str) -> dict[str, str]:
    """A file to keep, not a page to go to."""
    return {"content-disposition": f'attachment; filename="lockstep-{screen.title.lower().replace(" ", "-")}.{ending}"'}
