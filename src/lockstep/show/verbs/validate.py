"""Predictions beside published measurements."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated

from lockstep.base.errors import located
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.option import Argument

if TYPE_CHECKING:
    from lockstep.check.validation import Report


@strict
def validate(
    tables: Annotated[
        str | Iterable[str] | None, Argument("TABLE", "Table of published measurements; all when omitted.")
    ] = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> "Report":
    """Published measurements against predictions: all tables, or those named. Raises UnknownName."""
    from lockstep import validation

    names = [tables] if isinstance(tables, str) else tables
    with located("TABLE"):
        return validation.validate(names, progress)
