"""Deciders: small functions that compute one number which decides a claim, from the rooms that own the physics.

A check names one as `FILE.FUNCTION key=value ...`, with every number of its problem. A function returns a number, or
an array of independent outcomes where it is random: their mean decides, with its standard error. It has no numbers of
its own where another would give another answer: each is in the text of the check. The nature of the number is in
`NATURES`, by function: simulated, solved, counted, priced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Decider = TypeVar("Decider", bound=Callable[..., object])
NATURES: dict[str, str] = {}
"""`FILE.FUNCTION` -> how the number comes about."""
KEPT: dict[str, str] = {}
"""`FILE.FUNCTION` -> the runs that it reads, where others read them too and a process keeps them."""


def decides(nature: str, kept: str = "") -> Callable[[Decider], Decider]:
    """Registers a decider whose numbers come about in that way; `kept` names runs that it shares with others."""

    def register(function: Decider) -> Decider:
        name = f"{function.__module__.rsplit('.', 1)[-1]}.{function.__name__}"
        NATURES[name] = nature
        if kept:
            KEPT[name] = kept
        return function

    return register
