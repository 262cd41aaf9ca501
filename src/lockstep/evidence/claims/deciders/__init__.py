"""Deciders: small functions that compute one number which decides a claim, from the rooms that own the physics.

A check names one as `FILE.FUNCTION key=value ...`. A function returns a number; `Simulated` where it is random, with
its standard error. The nature of the number is in `NATURES`, by function: simulated, solved, counted, priced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Decider = TypeVar("Decider", bound=Callable[..., object])
NATURES: dict[str, str] = {}
"""`FILE.FUNCTION` -> how the number comes about."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """The mean of `runs` independent runs, and its standard error."""

    value: float
    standard_error: float
    runs: int


def decides(nature: str) -> Callable[[Decider], Decider]:
    """Registers a decider whose numbers come about in that way."""

    def register(function: Decider) -> Decider:
        file = function.__module__.rsplit(".", 1)[-1]
        NATURES[f"{file}.{function.__name__}"] = nature
        return function

    return register
