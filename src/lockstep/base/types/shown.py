"""`Shown`: what every answer of a verb has besides its numbers: a short text, a notebook's view, a table, a picture.

Views are above all rooms that make answers, and matplotlib and rich are not loaded before somebody looks: so the mixin
asks `upper("views")`, which knows the view of every class, when it is used.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from lockstep.base.types.upper import upper


class Shown:
    """An answer that shows itself as its command would."""

    __slots__ = ()

    def __repr__(self) -> str:
        """The verdict, as the command line prints it, in at most 1,000 characters."""
        text: str = upper("views").brief(self)
        return text

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        """What a notebook shows: the whole answer with its picture as HTML; JSON where it is asked for by name."""
        bundle: dict[str, Any] = upper("views").bundle(self, include, exclude)
        return bundle

    def table(self, frame: str = "") -> Any:
        """Rows of the answer as plain dictionaries, in SI units, or as a `pandas` or `polars` frame.

        The rows are those of the first list in the JSON form, such as the layouts of a plan; without one the answer is
        a single row. Raises BadInput where the package of `frame` is not installed.
        """
        return upper("views").table(self, frame)

    def save(self, path: str | Path) -> None:
        """Writes the whole answer with its picture as one HTML file. Raises BadInput where it cannot be written."""
        upper("views").save(self, path)

    def plot(self) -> Any:
        """The picture of the answer, a matplotlib Figure. Raises BadInput where there is none."""
        return upper("views").plot(self)
