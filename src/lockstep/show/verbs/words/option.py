"""How an option of a verb is declared: once, in its type. Flags, help and documentation derive from it.

    ranks: Annotated[Quantity, Option("N", "Number of ranks in the group.")]

A keyword of Python is a flag of the command line, `micro_batch` is `--micro-batch`. What is left out keeps the default
of the function, or of the library, which the help states.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin

from lockstep.base.records import dataclass, replace
from lockstep.show.verbs.words.about import about

Words = TypeVar("Words")


@dataclass(frozen=True, slots=True)
class Option:
    """An option that takes a value."""

    metavar: str
    meaning: str
    flag: str = ""
    """Instead of the keyword with hyphens, or one letter beside it."""
    panel: str = ""
    """Heading in the help text."""
    names: str = ""
    """What a shell offers: a list of `lockstep.show.views.parts.completing`."""
    repeated: bool = False
    default: str = ""
    """What it is where it is not given, as the help text states it."""
    kept: bool = False
    """Whether its default holds for a search too."""

    @property
    def help(self) -> str:
        """The help text."""
        return _with_default(self.meaning, self.default)


@dataclass(frozen=True, slots=True)
class Switch:
    """An option that is on or off."""

    help: str
    default: bool | None = None
    """With one, the command line can say both."""
    panel: str = ""
    flag: str = ""
    """One letter beside the keyword, as `-f`."""


@dataclass(frozen=True, slots=True)
class Argument:
    """What is said without a flag."""

    metavar: str
    meaning: str
    names: str = ""
    repeated: bool = False
    optional: bool = False
    """On the command line, where the view answers without it."""
    default: str = ""
    """As that of an option."""

    @property
    def help(self) -> str:
        """The help text."""
        return _with_default(self.meaning, self.default)


def _with_default(meaning: str, default: str) -> str:
    return f"{meaning} (default: {default})" if default else meaning


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
    searched: bool = False
    """Whether the verb finds the best where it is not given."""


def words_of(function: Callable[..., Any]) -> list[Word]:
    """The keywords of `function` that declare an option, in its order; then those of its `**words`."""
    function = inspect.unwrap(function)
    found, shared = list[Word](), list[Word]()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            (unpacked,) = get_args(parameter.annotation)
            types = unpacked.__annotations__
            searched = about(function).searches
            shared = [
                Word(name, _searched(one) if name in searched else one, None, types[name], name in searched)
                for name, one in declared_in(unpacked).items()
            ]
        elif (declared := declared_of(parameter.annotation)) is not None:
            default = None if parameter.kind is parameter.VAR_POSITIONAL else parameter.default
            found.append(Word(parameter.name, declared, default))
    return found + shared


def _searched(declared: Declared) -> Declared:
    """The option of a search, which takes the best where it is not given."""
    return replace(declared, default="") if isinstance(declared, Option) and not declared.kept else declared


def declared_in(words: type) -> dict[str, Declared]:
    """The options that a TypedDict declares, by keyword."""
    types = words.__annotations__
    return {name: declared for name, kind in types.items() if (declared := declared_of(kind)) is not None}


def declared_of(kind: Any) -> Declared | None:
    """The option that a type declares."""
    if get_origin(kind) is Annotated:
        return next((one for one in kind.__metadata__ if isinstance(one, Declared)), None)
    return None


def taken(words: Any, kind: type[Words]) -> Words:
    """Takes the keywords of the TypedDict `kind` out of `words`."""
    return cast(Words, {name: words.pop(name) for name in kind.__annotations__ if name in words})
