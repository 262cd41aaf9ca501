"""`Brief`: a record that says in a prompt what is particular about it, in at most LONGEST characters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from typing import Any

LONGEST = 1000


class Brief:
    """A dataclass (with `repr=False`) whose representation leaves out fields that have their default."""

    __slots__ = ()

    def __repr__(self) -> str:
        text = f"{type(self).__name__}({', '.join(_told(self))})"
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 5]} ...)"


def _told(record: Any) -> Iterator[str]:
    for field in fields(record):
        value = getattr(record, field.name)
        if not _is_default(value, field):
            yield f"{field.name}={value!r}"


def _is_default(value: object, field: Field[Any]) -> bool:
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    return type(value) is type(default) and bool(value == default)
