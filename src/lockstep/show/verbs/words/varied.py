"""Words for a program that is captured with several values of its arguments: `--vary`, and `--at` of its file."""

from collections.abc import Mapping, Sequence

from lockstep.base.errors import BadInput
from lockstep.base.units import parse_integer
from lockstep.show.verbs.words.option import Option
from lockstep.show.verbs.words.quantity import Quantity

FEWEST = 2
VARY = Option(
    "NAME=A,B,C",
    "Captures the program with each of these values in place of {NAME} in its arguments, so that its step is known "
    "for others too, e.g. layers=3,4 or batch=2,3,4; may be repeated for every combination.",
    repeated=True,
)
AT = Option(
    "NAME=VALUE",
    "Value of an argument that was varied when the program was captured, e.g. batch=16; may be repeated.",
    repeated=True,
    default="the largest that was captured",
)
STEPS = Option("N", "Steps of the run, for its hours and its cost.")
Vary = Mapping[str, Sequence[int]] | Sequence[str]
At = Mapping[str, Quantity] | Sequence[str]


def read_vary(given: Vary) -> dict[str, tuple[int, ...]]:
    """Values by name, in increasing order. Raises BadInput for a name with fewer than two."""
    found = {}
    for name, values in given.items() if isinstance(given, Mapping) else [named(one, "--vary") for one in given]:
        each = values.split(",") if isinstance(values, str) else values
        found[name] = tuple(sorted({parse_integer(one, "--vary") for one in each}))
        if len(found[name]) < FEWEST:
            raise BadInput(f"takes at least two values of {name}, such as {name}=2,3,4", "--vary")
    return found


def read_at(given: At) -> dict[str, int]:
    """A value by name."""
    pairs = given.items() if isinstance(given, Mapping) else [named(one, "--at") for one in given]
    return {name: parse_integer(value, "--at") for name, value in pairs}


def refuse_at(at: At, steps: Quantity | None = None) -> None:
    """Raises BadInput where words of a captured step are given and there is none."""
    if at:
        raise BadInput("applies to a captured step, as in lockstep memory step.capture --at batch=16", "--at")
    if steps is not None:
        raise BadInput("applies to a captured step, as in lockstep memory step.capture --steps 10k", "--steps")


def named(one: str, where: str) -> tuple[str, str]:
    """A name and its value. Raises BadInput."""
    name, equals, value = one.partition("=")
    if not (name.isidentifier() and equals and value):
        raise BadInput(f"must be NAME=VALUE, such as batch=4, got {one!r}", where)
    return name, value
