"""How an option of a verb is declared: once, in its type. Flags, help and documentation derive from it.

    ranks: Annotated[Quantity, Option("N", "Number of ranks in the group.")]

A keyword of Python is a flag of the command line, `micro_batch` is `--micro-batch`. What is left out keeps the default
of the function, or of the library, which the help states.
"""

from __future__ import annotations

import builtins
import collections.abc
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin

Words = TypeVar("Words")


@dataclass(frozen=True, slots=True)
class Option:
    """An option that takes a value."""

    metavar: str
    help: str
    flag: str = ""
    """Instead of the keyword with hyphens, or one letter beside it."""
    panel: str = ""
    """Heading in the help text."""
    names: str = ""
    """What a shell offers: a list of `lockstep.show.views.parts.completing`."""
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Switch:
    """An option that is on or off."""

    help: str
    default: bool | None = None
    """With one, the command line can say both."""
    panel: str = ""


@dataclass(frozen=True, slots=True)
class Argument:
    """What is said without a flag."""

    metavar: str
    help: str
    names: str = ""
    repeated: bool = False
    optional: bool = False
    """On the command line, where the view answers without it."""


Declared = Option | Switch | Argument


@dataclass(frozen=True, slots=True)
class Word:
    """A keyword of a verb that the command line takes."""

    name: str
    declared: Declared
    default: Any
    """`inspect.Parameter.empty` where it must be given."""
    annotation: object = None
    """Of an option from a class that several verbs take: what the class says of it."""


class Named:
    """Base of the classes that stand for those which only a type checker imports; they have their names."""

    def __class_getitem__(cls, members: object) -> type[Named]:
        return cls


class _Names(dict[str, Any]):
    """What annotations may name."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self.known = known

    def __missing__(self, name: str) -> Any:
        found = self.known.get(name, getattr(builtins, name, getattr(collections.abc, name, None)))
        return type(name, (Named,), {}) if found is None else found


def words_of(function: Callable[..., Any]) -> list[Word]:
    """The keywords of `function` that declare an option, in its order; then those of its `**words`."""
    function = inspect.unwrap(function)
    found, shared = list[Word](), list[Word]()
    for parameter in inspect.signature(function).parameters.values():
        kind = resolved(parameter.annotation, function.__globals__)
        if parameter.kind is parameter.VAR_KEYWORD:
            (unpacked,) = get_args(kind)
            said = unpacked.__annotations__
            shared = [Word(name, one, None, said[name]) for name, one in declared_in(unpacked).items()]
        elif (declared := declared_of(kind)) is not None:
            default = None if parameter.kind is parameter.VAR_POSITIONAL else parameter.default
            found.append(Word(parameter.name, declared, default))
    return found + shared


def declared_in(words: type) -> dict[str, Declared]:
    """The options that a TypedDict declares, by keyword."""
    return {name: declared for name, kind in annotated(words).items() if (declared := declared_of(kind)) is not None}


def annotated(words: type) -> dict[str, Any]:
    """The types of the keys of a TypedDict, with what is said beside them."""
    places = {name: (kind, vars(sys.modules[kind.__forward_module__])) for name, kind in words.__annotations__.items()}
    return {name: resolved(kind.__forward_arg__, known) for name, (kind, known) in places.items()}


def resolved(annotation: Any, known: Mapping[str, Any]) -> Any:
    """The type that an annotation means where the names `known` are."""
    return eval(annotation, {}, _Names(known)) if isinstance(annotation, str) else annotation


def declared_of(kind: Any) -> Declared | None:
    """The option that a type declares."""
    if get_origin(kind) is Annotated:
        return next((one for one in kind.__metadata__ if isinstance(one, Declared)), None)
    return None


def taken(words: Any, kind: type[Words]) -> Words:
    """Takes the keywords of the TypedDict `kind` out of `words`."""
    return cast(Words, {name: words.pop(name) for name in kind.__annotations__ if name in words})
