"""`Rule`: what a layout must satisfy, as a test over a grid and a sentence that teaches."""

from __future__ import annotations

from collections.abc import Callable

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Truth
from lockstep.price.layout.job import Job
from lockstep.price.layout.layout import Layout, LayoutGrid


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `broken` is true where a layout breaks it; `teach` says so in words; `flag` is the word to change."""

    key: str
    flag: str
    broken: Callable[[LayoutGrid, Job], Truth]
    teach: Callable[[Layout, Job], str]
