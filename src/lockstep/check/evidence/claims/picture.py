"""A picture of an item: a question, axes with units, and curves or a timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array

if TYPE_CHECKING:
    from lockstep.simulate.program import Timeline

Y = Array | list[float]


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One curve.

    `kind`: claimed or true laws, found (points), joined (points that no law connects), curve, dashed, wrong (claimed
    points), steps (of a histogram), bars, or limit (a bound of a machine).
    """

    label: str
    x: Y
    y: Y
    kind: str
    half: Y | None = None
    """Half the width of the 95 % interval of every point."""


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A question, its axes with units, and the curves; a `timeline` has axes of its own."""

    title: str
    x: str = ""
    y: str = ""
    lines: tuple[Line, ...] = ()
    log_x: bool = False
    log_y: bool = False
    least_y: float | None = None
    """Where the axis begins, where that is not left to the curves."""
    rows: tuple[str, ...] = ()
    """Names of the bars, from the top; a line of bars has their lengths as `y`."""
    timeline: Timeline | None = None
