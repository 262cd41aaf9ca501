"""`About`: what the interface knows of a function beside its signature, as decorators of the function declare it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from lockstep.base.records import dataclass, replace

Function = TypeVar("Function", bound=Callable[..., Any])
MOST_ALIKE = 8
"""Answers that share work: all of them come at once, and need memory at once."""


@dataclass(frozen=True, slots=True)
class Need:
    """Sets of keywords of which one must be given, and how a message asks for them."""

    either: tuple[frozenset[str], ...]
    words: str


@dataclass(frozen=True, slots=True)
class Shared:
    """Answers that share work where they differ in one keyword alone."""

    keyword: str
    together: Callable[[Sequence[Any]], AbstractContextManager[None]]
    """The context in which the answers for these values of the keyword share it."""
    most: int = MOST_ALIKE
    """Answers that do so at once."""


@dataclass(frozen=True, slots=True)
class About:
    """What is known of one function."""

    chooses: frozenset[str] = frozenset()
    """Keywords of which it is itself given all values of a list, and chooses one."""
    searches: frozenset[str] = frozenset()
    """Keywords of which it finds the best where they are not given."""
    needs: tuple[Need, ...] | None = None
    """What must be given beside the required keywords; None where that follows from its keywords."""
    shared: Shared | None = None
    lists: bool = False
    """Whether it answers for lists and ranges of values, with rows."""


_KNOWN: dict[Callable[..., Any], About] = {}


def about(function: Callable[..., Any]) -> About:
    """What is known of `function`, or of the function that it wraps."""
    return _KNOWN.get(inspect.unwrap(function), About())


def note(function: Callable[..., Any], **known: Any) -> None:
    """Adds fields of `About`."""
    _KNOWN[inspect.unwrap(function)] = replace(about(function), **known)


def choosing(keywords: Iterable[str], searched: Iterable[str]) -> Callable[[Function], Function]:
    """Marks a function that is itself given all values of a list, for these keywords, and searches `searched`."""
    return _marking(chooses=frozenset(keywords), searches=frozenset(searched))


def needing(*needs: Need) -> Callable[[Function], Function]:
    """Marks a function that must be given one of several sets of keywords, beside those that are required."""
    return _marking(needs=needs)


def sharing(
    keyword: str, together: Callable[[Sequence[Any]], AbstractContextManager[None]], most: int = MOST_ALIKE
) -> Callable[[Function], Function]:
    """Marks a function whose answers share work where only `keyword` differs, as `Shared` describes."""
    return _marking(shared=Shared(keyword, together, most))


def _marking(**known: Any) -> Callable[[Function], Function]:
    def mark(function: Function) -> Function:
        note(function, **known)
        return function

    return mark
