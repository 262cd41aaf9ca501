"""Words that come from an address or a file instead of a person: which keywords of a verb these may fill."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from lockstep.show.verbs.words.option import Declared, words_of

FILES = ("FILE", "DIR", "SWEEP")
"""What a keyword is declared to take that names a file or folder."""
ELSEWHERE = ("engine", "action")
"""Keywords that start processes, talk to other machines, or write and delete."""


@cache
def replayable(function: Callable[..., Any]) -> dict[str, Declared]:
    """The keywords of a verb that a stranger may fill, as declared: none that opens or writes a file."""
    found = {one.name: one.declared for one in words_of(function) if one.name not in ELSEWHERE}
    return {name: one for name, one in found.items() if getattr(one, "metavar", "") not in FILES}
