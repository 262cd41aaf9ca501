"""The verb about published runs: `case`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from lockstep.base.errors import located
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.option import Argument

if TYPE_CHECKING:
    from lockstep.check.validation.cases import Survey


@strict
def case(
    name: Annotated[str | None, Argument("CASE", "Case study, or a YAML file of your own; all when omitted.")] = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> "Survey":
    """Published training runs, predicted against published: the one called `name` (or a YAML file), or all of them.

    Raises UnknownName; BadInput at "file:line" for a file of your own.
    """
    from lockstep.check.validation.cases import survey

    with located("CASE"):
        return survey(None if name is None else [name], progress)
