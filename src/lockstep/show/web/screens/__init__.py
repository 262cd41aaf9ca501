"""The screens, in the order of their tabs."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockstep.show.web.screen import Screen

ORDER = (
    "ask", "layout", "space", "timeline", "machine", "whatif", "compare", "diagnose", "campaign", "sweeps", "trust",
    "learn", "play",
)  # fmt: skip
"""Names of screens: a file here and one in `page/screens` each."""


@cache
def screen(name: str) -> Screen:
    """The screen of that name."""
    found: Screen = import_module(f"lockstep.show.web.screens.{name}").SCREEN
    return found
