"""`Held`: the steps of one rank against the interval that was predicted for a step.

A run has left the interval when IN_A_ROW printed steps one after another lie outside of it on the same side, at the
first of these, and is back when as many lie inside. The first WARM_UP printed steps after every start do not count:
compilation, allocation and the filling of caches are in them.
"""

from __future__ import annotations

from lockstep.base.records import dataclass, field
from lockstep.base.types.plain import Json, picked

IN_A_ROW = 3
WARM_UP = 3


@dataclass(frozen=True, slots=True)
class Left:
    """Where a run left its interval."""

    step: int
    rank: int | None
    """None where the log does not say it."""
    line: int
    step_time_s: float
    side: str
    """`slower` or `faster`."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(slots=True)
class Held:
    """The state of one rank."""

    low_s: float
    high_s: float
    left: Left | None = None
    """Where it left, while it is outside."""
    outside: int = 0
    counted: int = 0
    _in_a_row: list[Left | None] = field(default_factory=list)
    _side: str = ""

    def hear(self, step_s: float, step: int, rank: int | None, line: int) -> str:
        """Holds a step against the interval; `left` or `returned` where that changes what is known, else empty."""
        side = "slower" if step_s > self.high_s else "faster" if step_s < self.low_s else ""
        self.counted += 1
        self.outside += bool(side)
        if side != self._side:
            self._in_a_row, self._side = [], side
        if len(self._in_a_row) < IN_A_ROW:
            self._in_a_row.append(Left(step, rank, line, step_s, side) if side else None)
        if len(self._in_a_row) < IN_A_ROW:
            return ""
        if side and (self.left is None or self.left.side != side):
            self.left = self._in_a_row[0]
            return "left"
        if not side and self.left is not None:
            self.left = None
            return "returned"
        return ""

    @property
    def known(self) -> bool:
        """Whether enough steps were seen for a verdict."""
        return self.counted >= IN_A_ROW
