"""What answers rest on, by device, training software and number format."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from lockstep.types.plain import Json, plain
from lockstep.types.shown import Shown
from lockstep.verbs.words.calling import strict
from lockstep.verbs.words.option import Argument, Option

if TYPE_CHECKING:
    from lockstep.planner.support import Support


@dataclass(frozen=True, slots=True, repr=False)
class Matrix(Shown):
    """Devices, software and formats with what is known of them together."""

    rows: tuple[Support, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many there are by level."""
        return dict(Counter(row.level for row in self.rows))

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {"rows": plain(self.rows), "counts": self.counts}


@strict
def support(
    device: Annotated[
        str | None, Argument("DEVICE", "A device of the catalog, such as h100-sxm; all when omitted.", names="devices")
    ] = None,
    *,
    stack: Annotated[
        str | None, Option("NAME", "A training software of the catalog. (default: all)", names="stacks")
    ] = None,
) -> Matrix:
    """What answers rest on: published steps, compared or fitted to, or nothing. Raises UnknownName."""
    from lockstep.hardware import device as find_device
    from lockstep.planner.support import matrix
    from lockstep.stacks import stack as find_stack

    wanted = None if device is None else find_device(device).name
    software = None if stack is None else find_stack(stack).name
    return Matrix(tuple(row for row in matrix() if wanted in (None, row.device) and software in (None, row.stack)))
