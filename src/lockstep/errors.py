"""Every error that Lockstep raises on purpose.

    LockstepError
    ├── BadInput            what was given is not allowed; exit code 2
    │   └── UnknownName     a name that is not in a catalog or schema; suggests close ones
    ├── Infeasible          the question is well posed and the answer is "no"; exit code 1
    └── RunFailed           a real run ended early: which rank, at which point, why; exit code 1

A message says what was given, what is allowed and what to try. Anything else that escapes is a bug in Lockstep.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

LONGEST = 60
"""Letters of a wrong value that are said again."""
_LONG_WORD, _PUNCTUATION = re.compile(r"\S{300,}"), re.compile(r"\W*$")
_LONG_MESSAGE, _ENDING = 1500, 300


class LockstepError(Exception):
    """Base of every deliberate error."""


class BadInput(LockstepError, ValueError):
    """The input is not allowed. `where` locates it: a flag, `file:line`, or a dotted key."""

    exit_code = 2

    def __init__(self, message: str, where: str | None = None) -> None:
        self.message = brief(message)
        self.where = where
        super().__init__(f"{brief(where)}: {self.message}" if where else self.message)


def brief(message: str) -> str:
    """The message with very long words cut to their beginning, and its middle left out when it is still too long.

    What a user gives may be as long as a file; a message that says it again must still be read.
    """
    text = _LONG_WORD.sub(lambda word: word[0][:LONGEST] + "..." + _PUNCTUATION.findall(word[0][-3:])[0], message)
    return text if len(text) <= _LONG_MESSAGE else f"{text[: _LONG_MESSAGE - _ENDING]} ... {text[-_ENDING:]}"


class UnknownName(BadInput):
    """A name that nobody registered; the message lists the closest names, or all when they are few."""

    def __init__(self, what: str, given: str, allowed: Iterable[str], where: str | None = None) -> None:
        self.given = given
        self.allowed = tuple(allowed)
        super().__init__(f"unknown {what} {given[:LONGEST]!r}; {suggestion(given, self.allowed)}", where)


@contextmanager
def located(where: str) -> Iterator[None]:
    """Gives a BadInput from within a place when it has none, so that every message says which word was wrong."""
    try:
        yield
    except BadInput as error:
        if error.where is not None:
            raise
        raise BadInput(error.message, where) from None


def suggestion(given: str, allowed: Sequence[str]) -> str:
    """`did you mean ...?` when something is close, else the list of what is allowed."""
    lowered = {name.lower(): name for name in allowed}
    close = difflib.get_close_matches(given.lower(), list(lowered), n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(lowered[name] for name in close) + "?"
    shown = ", ".join(allowed[:20]) + (", ..." if len(allowed) > 20 else "")
    return f"try one of: {shown}"


@dataclass(frozen=True, slots=True)
class Violation:
    """One violated constraint. `excess` and `limit` are in the same unit; margin = excess / limit."""

    why: str
    excess: float
    limit: float

    @property
    def margin_frac(self) -> float:
        """How far over the limit, as a fraction of the limit."""
        return self.excess / self.limit if self.limit else float("inf")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {"why": self.why, "excess": self.excess, "limit": self.limit}


class Infeasible(LockstepError):
    """Nothing satisfies the constraints. Carries every violated constraint with its margin."""

    exit_code = 1

    def __init__(self, message: str, violations: Sequence[Violation] = ()) -> None:
        self.violations = tuple(violations)
        super().__init__(message)


class RunFailed(LockstepError):
    """A rank of a real run did not return. Carries the failure of every rank, the one that explains the others first.

    Each has `rank`, `point`, `reason` and `traceback` (`lockstep.measure.launch.Failure`).
    """

    exit_code = 1

    def __init__(self, message: str, failures: Sequence[Any] = ()) -> None:
        self.failures = tuple(failures)
        super().__init__(message)
