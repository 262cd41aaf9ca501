"""Every error that Lockstep raises on purpose.

    LockstepError
    ├── BadInput            what was given is not allowed; exit code 2
    │   └── UnknownName     a name that is not in a catalog or schema; suggests close ones
    ├── Infeasible          the question is well posed and the answer is "no"; exit code 1
    └── RunFailed           a real run ended early: which rank, at which point, why; exit code 1
    KeyboardInterrupt
    └── Stopped             Ctrl-C in a real run that has something to show by then; exit code 130

A message says what was given, what is allowed and what to try. Anything else that escapes is a bug in Lockstep.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.vocabulary import LAYOUT, OPTIONS, SEARCHING, VALUES, bare

CTRL_C = "Ctrl-C"
"""Why an answer is not whole when a person ended it."""
DISTRIBUTION = "lockstep-training"
"""Name of the package on an index; `lockstep`, the name of the command and of the import, is there somebody else's."""
LONGEST = 60
"""Letters of a wrong value that are said again."""
_LONG_WORD, _PUNCTUATION = re.compile(r"\S{300,}"), re.compile(r"\W*$")
_LONG_MESSAGE, _ENDING = 1500, 300
OPTION = re.compile(r"\[(\w+)(?: ([^\]]+))?\]")
"""A word of Lockstep in a text of the vocabulary, and its value."""
NUMBERS = re.compile(r"\d+")
SHORT = 3
"""Letters of a word of which half may be wrong: `tx` is near `tp`."""


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


def shown(value: Any) -> str:
    """A value for a message, in at most LONGEST letters: numbers and short text as they are, objects by their class."""
    if isinstance(value, str | bytes | bool | float) or value is None:
        text = repr(value[: LONGEST + 1] if isinstance(value, str | bytes) else value)
    elif isinstance(value, int):
        text = str(value) if value.bit_length() < 4 * LONGEST else "a number that is too large"
    else:
        text = f"an object of {type(value).__name__}"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def install_line(extra: str) -> str:
    """The command that installs the packages of an extra next to Lockstep."""
    return f"pip install '{DISTRIBUTION}[{extra}]', or pip install '.[{extra}]' in a checkout of Lockstep"


def not_installed(need: str, extra: str, where: str | None = None) -> BadInput:
    """The error of packages that are not installed: `need` names them, `extra` is the extra that brings them."""
    return BadInput(f"{need}: {install_line(extra)}", where)


class UnknownName(BadInput):
    """A name that nobody registered; the message says what was meant, lists the closest names, or all of few."""

    def __init__(
        self, what: str, given: object, allowed: Iterable[str], where: str | None = None, *,
        why: str | None = None, otherwise: str | None = None,
    ) -> None:  # fmt: skip
        """`why` it cannot be had, where that is known; `otherwise` as for `suggestion`."""
        self.given = name = str(given)
        self.allowed = tuple(allowed)
        hint = why or instead(what, name, self.allowed) or suggestion(name, self.allowed, otherwise)
        super().__init__(f"unknown {what} {name[:LONGEST]!r}; {hint}", where)


@contextmanager
def located(where: str) -> Iterator[None]:
    """Gives a BadInput from within a place when it has none, so that every message says which word was wrong."""
    try:
        yield
    except BadInput as error:
        if error.where is not None:
            raise
        raise BadInput(error.message, where) from None


def closest(given: str, allowed: Sequence[str]) -> list[str]:
    """The names that are spelled nearly as `given`, the nearest first; none that is much further off than the nearest.

    A word with the same letters in another order is near, and of a short word half may be wrong.
    """
    word = given.lower()
    number, cutoff, margin = (6, 0.5, 0.5) if len(word) <= SHORT else (3, 0.6, 0.15)
    lowered = {name.lower(): name for name in allowed}
    turned = [name for name in lowered if sorted(name) == sorted(word)]
    close = difflib.get_close_matches(word, list(lowered), n=number, cutoff=cutoff)
    likeness = {name: difflib.SequenceMatcher(None, name, word).ratio() for name in close}
    near = [name for name in close if likeness[name] >= likeness[close[0]] - margin and name not in turned]
    return [lowered[name] for name in (*turned, *near)][:number]


def _same_numbers(given: str, name: str) -> bool:
    """Whether `name` has the numbers of `given`, each but for digits at its end that are missing or too many.

    `dgx-h10` may be a misspelled `dgx-h100`; `llama-4` is not a misspelled `llama-7b`.
    """
    pairs = list(zip(NUMBERS.findall(given), NUMBERS.findall(name), strict=False))
    return all(first.startswith(second) or second.startswith(first) for first, second in pairs)


def instead(what: str, given: str, allowed: Sequence[str]) -> str | None:
    """What to give instead of a value that other software calls so, None when nothing is known of it."""
    meant = VALUES.get(what, {}).get(bare(given))
    return f"use {meant}" if meant in allowed else None


def suggestion(given: str, allowed: Sequence[str], otherwise: str | None = None) -> str:
    """`did you mean ...?` when something is close, else the list of what is allowed.

    With `otherwise` the names are those of things in the world: one with another number is another thing, which is not
    suggested; and when nothing is close, `otherwise` is said.
    """
    close = [name for name in closest(given, allowed) if otherwise is None or _same_numbers(given, name)]
    if close:
        return f"did you mean {' or '.join(close)}?"
    shown = ", ".join(allowed[:20]) + (", ..." if len(allowed) > 20 else "")
    return f"try one of: {shown}" if otherwise is None else otherwise


def option_hint(
    given: str, allowed: Sequence[str], verb: str, write: Callable[[str, str], str], otherwise: str
) -> str:  # fmt: skip
    """What to say instead of an option that `verb` does not have: by meaning, by spelling, or `otherwise`.

    `write(word, value)` writes a word of Lockstep, with its value or "", as a flag or as a keyword.
    """
    word = given.lower().strip("-").replace("-", "_")
    texts = OPTIONS.get(word, ())
    named = {text: [match[1] for match in OPTION.finditer(text)] for text in texts}
    text = next((text for text in texts if set(named[text]) <= set(allowed)), texts[0] if texts else "")
    missing = next((one for one in named.get(text, ()) if one not in allowed), None)
    chosen = verb in SEARCHING and (missing or word) in LAYOUT
    if text:
        shown = OPTION.sub(lambda match: write(match[1], match[2] or ""), text)
        return shown + (f"; {verb} chooses it itself" if chosen else f"; {verb} does not take it" if missing else "")
    if chosen:
        return f"{verb} chooses it itself; estimate takes {write(word, '')}"
    close = closest(word, allowed)
    if close:
        return f"did you mean {' or '.join(write(one, '') for one in close)}?"
    return otherwise


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

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


class Infeasible(LockstepError):
    """Nothing satisfies the constraints. Carries every violated constraint with its margin."""

    exit_code = 1

    def __init__(self, message: str, violations: Sequence[Violation] = ()) -> None:
        self.violations = tuple(violations)
        self.find_levers: Callable[[], Any] | None = None
        """Searches for what would make a run fit that does not; None where nobody can."""
        super().__init__(message)

    @cached_property
    def levers(self) -> Any:
        """What would make a run fit that does not (`planner.Levers`); None where nobody looks."""
        return None if self.find_levers is None else self.find_levers()


class RunFailed(LockstepError):
    """A rank of a real run did not return. Carries the failure of every rank, the one that explains the others first.

    Each has `rank`, `point`, `reason` and `traceback` (`lockstep.run.launch.Failure`).
    """

    exit_code = 1

    def __init__(self, message: str, failures: Sequence[Any] = ()) -> None:
        self.failures = tuple(failures)
        super().__init__(message)


class Stopped(KeyboardInterrupt):
    """Ctrl-C in a run that has something to show: `answer`, as the verb would have returned it, as far as it came."""

    exit_code = 130

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        super().__init__("stopped by Ctrl-C")
