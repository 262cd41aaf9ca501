"""`strict`: a function of this interface refuses a keyword that it does not have, before it computes anything.

Many verbs take `**words: Unpack[SomeWords]`. A type checker knows what is in there, Python does not: it would hand a
misspelled word on, and the answer would be for another question.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache, wraps
from types import SimpleNamespace
from typing import Any, TypeVar, cast, get_args, get_type_hints

from lockstep.errors import LONGEST, option_hint

Function = TypeVar("Function", bound=Callable[..., Any])


def strict(function: Function) -> Function:
    """`function`, which raises TypeError for an unknown keyword: the verb, the keyword and what was probably meant."""

    @wraps(function)
    def call(*given: Any, **words: Any) -> Any:
        allowed = keywords(function)
        for word in words:
            if word not in allowed:
                raise TypeError(_refusal(function.__name__, word, allowed))
        return function(*given, **words)

    return cast(Function, call)


@cache
def keywords(function: Callable[..., Any]) -> tuple[str, ...]:
    """Every keyword that `function` takes, those of an unpacked TypedDict included."""
    found: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            found += _unpacked(function, parameter.annotation)
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            found.append(parameter.name)
    return tuple(found)


def _unpacked(function: Callable[..., Any], annotation: str) -> list[str]:
    """Keys of the TypedDict in the annotation `Unpack[...]`, in their order.

    It alone is resolved: other annotations of `function` may name what only a type checker imports.
    """
    holder = SimpleNamespace(__annotations__={"words": annotation})
    (words,) = get_args(get_type_hints(holder, function.__globals__)["words"])
    return list(words.__annotations__)


def _refusal(verb: str, word: str, allowed: Sequence[str]) -> str:
    """What Python itself says of an unknown keyword, and what to say instead."""
    hint = option_hint(word, allowed, verb, _keyword, f"see help(lockstep.{verb})")
    return f"{verb}() got an unexpected keyword argument {word[:LONGEST]!r}; {hint}"


def _keyword(name: str, value: str) -> str:
    return f"{name}={value}" if value else repr(name)
