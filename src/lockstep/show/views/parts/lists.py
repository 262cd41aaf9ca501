"""Lists and ranges on the command line: `--ranks 2..1024x2 --size 1MB,10MB` gives a row for every combination."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from inspect import unwrap
from typing import TYPE_CHECKING, Any

from lockstep.base.documents.files import writable, writing
from lockstep.base.errors import BadInput
from lockstep.show.views.parts.output import draw, pairs, picture_path, show
from lockstep.show.views.parts.progress import progress

if TYPE_CHECKING:
    from lockstep.base.rows import Rows
    from lockstep.show.views.parts.command import Command

ELSEWHERE = ("as_json", "plot", "csv")


def answer_lists(function: Callable[..., Any], words: Mapping[str, Any], command: Command) -> bool:
    """Answers where numeric options have several values, and says whether any has.

    Raises BadInput for a picture or CSV of what has none.
    """
    from lockstep.base.rows.files import check_format, write_rows
    from lockstep.show.verbs.words.about import about
    from lockstep.show.verbs.words.calling import FOR_LISTS, keywords, several
    from lockstep.show.views.parts.rows_plot import plot_rows
    from lockstep.show.views.parts.rows_table import render_rows

    plain = unwrap(function)
    known = keywords(plain)
    given = {key: value for key, value in words.items() if key in known and value is not None and key not in ELSEWHERE}
    lists = several(plain, (), given) if about(function).lists else {}
    if not lists:
        _refuse_without_lists(words, known, command.picture is not None)
        return False
    more = {key: words.get(key) for key in FOR_LISTS}
    for key, value in words.items():
        if key not in known and key not in (*ELSEWHERE, *FOR_LISTS) and value:
            raise BadInput(f"is for one answer; give one value of --{next(iter(lists)).replace('_', '-')}", _flag(key))
    if given.get("settings"):
        given["settings"] = pairs(given["settings"])
    picture_path(words.get("plot"))
    table = None if words.get("csv") is None else writable(words["csv"], "--csv")
    if table is not None:
        check_format(table, "--csv")
    with progress(function.__name__) as report:
        found: Rows = function(**{**given, **more}, progress=report)
    draw(words.get("plot"), partial(plot_rows, found, command.figures, command.series))
    if table is not None:
        with writing(table, "--csv"):
            write_rows(found.to_dict()["rows"], table)
    show(found, words["as_json"], partial(render_rows, command.figures, command.series), ok=found.ok)
    return True


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _refuse_without_lists(words: Mapping[str, object], known: Mapping[str, object], own_plot: bool) -> None:
    """Raises BadInput where something for rows is asked for and there are none."""
    from lockstep.show.verbs.words.calling import FOR_LISTS, NO_LIST

    for name in ("csv", *(name for name in FOR_LISTS if name not in known), *(() if own_plot else ("plot",))):
        if words.get(name) is not None:
            raise BadInput(NO_LIST, _flag(name))
