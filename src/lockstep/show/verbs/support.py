"""What answers rest on, by device, training software and number format."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, plain
from lockstep.base.types.shown import Shown
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.option import Argument, Option
from lockstep.show.verbs.words.stack_file import WAY, read_stack

if TYPE_CHECKING:
    from lockstep.decide.planner.support import Support


@dataclass(frozen=True, slots=True, repr=False)
class Matrix(Shown):
    """Devices, software and formats with what is known of them together."""

    rows: "tuple[Support, ...]"

    @property
    def counts(self) -> dict[str, int]:
        """How many there are by level."""
        return dict(Counter(row.level for row in self.rows))

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {"rows": plain(self.rows), "counts": self.counts}


DEVICE = Argument("DEVICE", "A device of the catalog, such as h100-sxm; all when omitted.", names="devices")
STACK = Option("NAME", "A training software of the catalog, or a TOML file of your own.", names="stacks", default="all")


@strict
def support(
    device: Annotated[str | None, DEVICE] = None,
    *,
    stack: Annotated[str | Path | Mapping[str, Any] | None, STACK] = None,
    way: Annotated[str | Mapping[str, str] | None, WAY] = None,
) -> Matrix:
    """What answers rest on: published steps, compared or fitted to, or nothing. Raises UnknownName."""
    from lockstep.decide.planner.support import matrix
    from lockstep.describe.hardware import device as find_device

    if way is not None and stack is None:
        raise BadInput("is of one software; give --stack too", "--way")
    wanted = None if device is None else find_device(device).name
    rows = matrix() if stack is None else matrix((read_stack(stack, way),))
    return Matrix(tuple(row for row in rows if wanted in (None, row.device)))
