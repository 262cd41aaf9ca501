"""The numbers of a text, and those that commands print about a question."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from io import StringIO
from typing import Any

from rich.console import Console

from lockstep.show.views.parts.notebook import view_of

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?")


class _Whole(Console):
    """A console that prints all small print, as a page does."""

    def __init__(self) -> None:
        super().__init__(file=StringIO(), width=400, highlight=False, markup=False, emoji=False, color_system=None)
        self.seen: set[str] = set()


def numbers(*texts: str) -> set[str]:
    """Every number of the texts, as it is written."""
    return {one.rstrip(",") for text in texts for one in NUMBER.findall(text)}


def printed(verb: str, answer: Any) -> str:
    """What the command prints of an answer."""
    out = _Whole()
    import_module(f"lockstep.show.views.{verb}").COMMAND.render(answer, out)
    return out.file.getvalue()  # type: ignore[attr-defined]


def printed_by(answer: Any) -> str:
    """The same, by the view of its class."""
    out = _Whole()
    view_of(answer)[0](answer, out)
    return out.file.getvalue()  # type: ignore[attr-defined]


def texts(values: Iterable[object]) -> str:
    """Values in one text."""
    return " ".join(map(str, values))
