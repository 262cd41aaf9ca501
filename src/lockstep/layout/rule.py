"""`Rule`: what a layout must satisfy, as a test over a grid and a sentence that teaches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lockstep.layout.job import Job
from lockstep.layout.layout import Layout, LayoutGrid
from lockstep.types.arrays import Truth


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `broken` is true where a layout breaks it; `teach` says so in words; `flag` is the word to change."""

    key: str
    flag: str
    broken: Callable[[LayoutGrid, Job], Truth]
    teach: Callable[[Layout, Job], str]
