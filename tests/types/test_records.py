"""`base.records.dataclass` against the standard library's decorator on the same classes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

from lockstep.base import records

DECORATORS = {"ours": records.dataclass, "theirs": dataclasses.dataclass}
OPTIONS: list[dict[str, bool]] = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "repr": False},
    {"frozen": True, "slots": True, "order": True},
]


def plain() -> type:
    """A class with what dataclasses of this package have: defaults, factories, and a check after it is made."""

    class Point:
        """A place."""

        known: ClassVar[int] = 0
        x: int
        y: float = 2.0
        tags: tuple[str, ...] = dataclasses.field(default_factory=tuple, compare=False)
        secret: int = dataclasses.field(default=1, repr=False)
        kept: int | None = dataclasses.field(default=None, init=False)

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("below zero")

    return Point


def pair(**options: bool) -> list[type]:
    """The class as both decorators make it."""
    return [decorate(**options)(plain()) for decorate in DECORATORS.values()]


def said(ask: Callable[[], Any]) -> Any:
    """An answer, or the error's type and text."""
    try:
        return ask()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "none")
def test_methods_do_what_the_standard_ones_do(options: dict[str, bool]) -> None:
    def answers(point: Any) -> Iterator[Any]:
        one, same, other = point(x=1), point(x=1, tags=("a",)), point(x=2)
        yield from (one == same, one == other, one == 1, one != other, said(lambda: hash(one) == hash(same)))
        yield repr(one) if options.get("repr", True) else type(one).__repr__ is object.__repr__
        yield from (said(lambda: one < other), said(lambda: setattr(one, "x", 3)), said(lambda: delattr(other, "x")))
        yield from (said(lambda: point(x=-1)), said(lambda: point()), said(lambda: point(1, 2).y), one.tags, one.kept)
        yield dataclasses.asdict(dataclasses.replace(same, y=4.0))
        yield [field.name for field in dataclasses.fields(point)]
        yield str(inspect.signature(point))
        yield hasattr(one, "__dict__")

    ours, theirs = pair(**options)
    for mine, standard in zip(answers(ours), answers(theirs), strict=True):
        assert mine == standard


@pytest.mark.parametrize("options", OPTIONS[:5], ids=lambda options: "-".join(options) or "none")
def test_copies_and_pickles_are_equal(options: dict[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    point: Any = records.dataclass(**options)(plain())
    point.__qualname__ = "Point"
    monkeypatch.setattr(sys.modules[__name__], "Point", point, raising=False)
    one = point(x=1, tags=("a",))
    for again in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert again == one
        assert again.tags == one.tags


@records.dataclass(frozen=True, slots=True)
class Base:
    """What a subclass adds to."""

    a: int


@records.dataclass(frozen=True, slots=True)
class Derived(Base):
    """With a field more, and an equality of its own."""

    b: int = 2

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Derived) and other.a == self.a


def test_subclasses_have_all_fields_and_keep_their_own_methods() -> None:
    one = Derived(1, 3)
    assert (one.a, one.b, repr(one)) == (1, 3, "Derived(a=1, b=3)")
    assert one == Derived(1, 4)
    assert hash(one) != hash(Derived(1, 4))
    assert Base(1) != one


@pytest.mark.parametrize("decorate", DECORATORS.values(), ids=DECORATORS)
def test_other_peoples_classes_derive_from_a_frozen_one_as_usual(decorate: Callable[..., Any]) -> None:
    class Child(Base):
        """Of another package."""

        c: int = 3

    child: Any = decorate(frozen=True)(Child)
    assert repr(child(1)).endswith("Child(a=1, c=3)")
    assert child(1) == child(1, 3)
    assert said(lambda: setattr(child(1), "c", 4))[0] is dataclasses.FrozenInstanceError
    with pytest.raises(TypeError, match="cannot inherit non-frozen"):
        decorate()(type("Loose", (Base,), {}))


def test_methods_are_made_when_they_are_looked_up() -> None:
    point: Any = records.dataclass(frozen=True)(plain())
    waiting = {name for name, value in vars(point).items() if type(value).__name__ == "_Later"}
    assert waiting == {"__init__", "__repr__", "__eq__", "__hash__"}
    point(1)
    assert inspect.isfunction(vars(point)["__init__"])
    assert type(vars(point)["__eq__"]).__name__ == "_Later"
