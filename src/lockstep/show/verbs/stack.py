"""What training software does in every step: one, all of the catalog, in what two differ, or what a capture shows."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.shown import Shown
from lockstep.show.verbs.capture import FILE, is_capture
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.option import Argument
from lockstep.show.verbs.words.stack_file import AT_STACK, Given, read_stack

if TYPE_CHECKING:
    from lockstep.describe.stacks import Difference, Stack
    from lockstep.describe.stacks.derived import Derived


@dataclass(frozen=True, slots=True, repr=False)
class Stacks(Shown):
    """Training software: all of the catalog, one, or two."""

    stacks: "tuple[Stack, ...]"
    differences: "tuple[Difference, ...] | None"
    """In what two differ; None where no two are asked for."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {"stacks": [_whole(one) for one in self.stacks], "differences": plain(self.differences)}


def _whole(one: "Stack") -> Json:
    return {**one.to_dict(), **picked(one, "like ways habits switches")}


DERIVE = "derive"
NAME = Argument(
    "NAME",
    "Training software of the catalog, or a TOML file of your own; all when omitted; derive for what a capture shows.",
    "stacks",
)
OTHER = Argument("OTHER", "The software to compare it with, or a TOML file; after derive, a captured step.", "stacks")


@strict
def stack(
    name: Annotated[str | Path | Mapping[str, Any] | None, NAME] = None,
    other: Annotated[str | Path | Mapping[str, Any] | None, OTHER] = None,
) -> "Stacks | Derived":
    """The ways, habits, switches and times of software with their sources, or those in which two differ.

    After `derive`, those that a captured step shows, as the file of a stack. Raises BadInput for a file that describes
    none, and UnknownName.
    """
    from lockstep.describe.stacks import differences, stacks

    if name == DERIVE:
        return _derived(other)
    given = {"NAME": name, "OTHER": other}
    found = tuple(_read(one, where) for where, one in given.items() if one is not None)
    return Stacks(found or tuple(stacks().values()), differences(*found) if len(found) == 2 else None)


def _read(given: Given, where: str) -> "Stack":
    """The software; errors about no line of a file are about the argument."""
    try:
        return read_stack(given)
    except BadInput as error:
        raise BadInput(error.message, where if error.where == AT_STACK else error.where) from None


def _derived(path: Given | None) -> "Derived":
    from lockstep.describe.captured import read_captured
    from lockstep.describe.stacks.derived import derived

    if not is_capture(path):
        raise BadInput(f"derive takes a file of lockstep capture, such as {FILE}", "OTHER")
    return derived(read_captured(str(path)), str(path))
