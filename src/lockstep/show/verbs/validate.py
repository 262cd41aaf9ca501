"""Predictions beside published measurements."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated

from lockstep.base.errors import located
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.option import Argument, Switch

if TYPE_CHECKING:
    from lockstep.check.validation import Ledger, Report


@strict
def validate(
    tables: Annotated[
        str | Iterable[str] | None, Argument("TABLE", "Table of published measurements; all when omitted.")
    ] = None,
    *,
    first_sight: Annotated[
        bool, Switch("Show instead what tables said before anything was changed for them; nothing is predicted.")
    ] = False,
    progress: Callable[[int, int], None] | None = None,
) -> "Report | Ledger":
    """Published measurements against predictions: all tables, or those named. Raises UnknownName."""
    from lockstep import validation

    names = [tables] if isinstance(tables, str) else tables
    with located("TABLE"):
        return validation.first_sight(names) if first_sight else validation.validate(names, progress)
