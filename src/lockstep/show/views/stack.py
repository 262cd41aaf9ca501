"""`lockstep stack`: training software: how it runs the slots of a layer, its habits, switches and times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from rich.text import Text

from lockstep.base.types.plain import picked, plain
from lockstep.base.units import format_time
from lockstep.describe.stacks import Way
from lockstep.describe.stacks.derived import Derived
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.terminal import heading, indented, small_print, table

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.describe.stacks import Stack
    from lockstep.show.verbs.stack import Stacks

NUMBERS = "elementwise_factor launch_s recompute_host_s step_s"
UNSET = "default"


def render(found: Stacks | Derived, out: Console) -> None:
    """Prints a line for each, all of one, or what two have otherwise; of a capture the file of a stack."""
    if isinstance(found, Derived):
        out.print(Text(found.toml, no_wrap=True, overflow="ignore"), soft_wrap=True, end="")
    elif found.differences is not None:
        _two(found, out)
    elif len(found.stacks) == 1:
        _one(found.stacks[0], out)
    else:
        out.print(f"{len(found.stacks)} stacks; lockstep stack NAME shows one, two names their differences")
        rows = ((one.name, one.kernels, f"{one.software}, {one.release}") for one in found.stacks)
        indented(out, table([("name", "left"), ("kernels", "left"), ("software", "line")], rows))


def _one(stack: Stack, out: Console) -> None:
    out.print(_title(stack))
    heading(out, "Ways", "passes over an element and kernels, forward + backward")
    rows = (row for slot, way in stack.ways.items() for row in _ways(slot, way))
    titles = [("slot", "left"), ("way", "left"), ("passes", "right"), ("kernels", "right"), ("steps", "text")]
    indented(out, table(titles, rows))
    heading(out, "Habits, switches and times")
    said = {**stack.habits.changed(), **stack.switches, "attention": stack.attention, "kernels": stack.kernels}
    said |= picked(stack, NUMBERS)
    indented(out, table([("", "left"), ("", "text")], ((name, _value(name, value)) for name, value in said.items())))
    _sources(out, [stack], stack.ways.values())


def _two(found: Stacks, out: Console) -> None:
    a, b = found.stacks
    out.print(f"{_title(a)}\n{_title(b)}")
    ways = [one for one in found.differences or () if one.kind == "way"]
    others = [one for one in found.differences or () if one.kind != "way"]
    if ways:
        heading(out, "Ways that differ", "passes over an element in so many kernels, forward + backward")
        rows = ([one.name, *("; ".join(["{}: {} in {}".format(*_cells(way)), *_kept(way)]) for way in (one.a, one.b))]
                for one in ways)  # fmt: skip
        indented(out, table([("slot", "left"), (a.name, "text"), (b.name, "text")], rows))
    if others:
        heading(out, "Habits, switches and times that differ")
        values = ([one.name, *(_value(one.name, value) for value in (one.a, one.b))] for one in others)
        indented(out, table([("", "left"), (a.name, "text"), (b.name, "text")], values))
    if not found.differences:
        out.print("they do not differ in what is priced")
    _sources(out, found.stacks, (way for one in ways for way in (one.a, one.b)))


def _title(stack: Stack) -> str:
    like = "" if isinstance(stack.said, str) else f" (like {stack.like})"
    return f"{stack.name}{like}: {stack.software}, {stack.release}"


def _cells(way: Way) -> list[str]:
    """Name, passes and kernels of a way, with what it is where a trait is missing."""
    name = way.name if way.otherwise is None else f"{way.name}, else {way.otherwise.name}"
    return [name, *("{:.3g} + {:.3g}".format(*pair) for pair in (way.passes, way.kernels))]


def _ways(slot: str, way: Way) -> Iterator[list[str]]:
    """The row of a way, and below it those of its parts, over numbers of their own."""
    yield [slot, *_cells(way), "; ".join([*map(str, way.forward + way.backward), *_kept(way)])]
    for name, part in way.parts.items():
        yield ["", f"+ {name}", *_cells(part)[1:], "; ".join(map(str, part.forward + part.backward))]


def _kept(way: Way) -> Iterator[str]:
    """What it keeps for the backward pass besides, in numbers for each element."""
    kept = way if way.otherwise is None or way.saves else way.otherwise
    yield from (f"keeps {one}" for one in kept.saves)


def _value(name: str, value: Any) -> str:
    if value is None:
        return UNSET
    if name.endswith("_s"):
        return format_time(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(plain(value))


def _sources(out: Console, stacks: Iterable[Stack], ways: Iterable[Way]) -> None:
    small_print(out, "Sources", list(dict.fromkeys(_said(stacks, ways))), 100)


def _said(stacks: Iterable[Stack], ways: Iterable[Way]) -> Iterator[str]:
    yield from (f"{one.name}: {one.source}" for one in stacks)
    yield from (f"{way.slot} {way.name}: {way.source}" for way in ways if way.source)


COMMAND = Command(
    examples=(
        "lockstep stack",
        "lockstep stack torchtitan",
        "lockstep stack torchtitan hf-trainer",
        "lockstep stack megatron-te nemo-25 --json",
        "lockstep stack derive step.capture",
    ),
    more="A layer's kernels between its matrix products are slots; a way says how software runs one. "
    "lockstep stacks is the same command.",
    render=render,
    lists=False,
)
