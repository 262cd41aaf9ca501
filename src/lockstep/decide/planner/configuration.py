"""`Configuration`: what other software is launched with."""

from __future__ import annotations

from collections.abc import Mapping

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked


@dataclass(frozen=True, slots=True)
class Configuration:
    """What software is launched with for a step."""

    software: str
    version: str
    files: Mapping[str, str]
    """Texts by the names of files."""
    folder: str | None = None
    """Where they were written."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)
