"""`plain` gives what JSON can say, and `picked` the fields that are asked for, in that order."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from lockstep.base.types.plain import picked, plain


@dataclass(frozen=True)
class Inner:
    """A result within a result."""

    size_B: float

    def to_dict(self) -> dict[str, float]:
        """One key, renamed."""
        return {"bytes": self.size_B}


@dataclass(frozen=True)
class Outer:
    """A result."""

    name: str
    parts: tuple[Inner, ...]
    times_s: np.ndarray
    best: Inner | None = None

    @property
    def count(self) -> int:
        """Of the parts."""
        return len(self.parts)


FOUND = Outer("ring", (Inner(1.0), Inner(2.0)), np.array([1.5, 2.5]))


def test_nested_objects_use_to_dict_and_arrays_become_lists() -> None:
    assert plain(FOUND) == {
        "name": "ring", "parts": [{"bytes": 1.0}, {"bytes": 2.0}], "times_s": [1.5, 2.5], "best": None,
    }  # fmt: skip


def test_numbers_of_numpy_are_numbers_of_python() -> None:
    for value, kind in ((np.float64(0.5), float), (np.int32(3), int), (np.bool_(True), bool)):
        assert type(plain(value)) is kind
    assert json.dumps(plain(MappingProxyType({"a": (np.int64(1), "b")}))) == '{"a": [1, "b"]}'


def test_fields_are_picked_by_name_in_that_order_or_all_but_some() -> None:
    assert list(picked(FOUND, "count name")) == ["count", "name"]
    assert picked(FOUND, "count") == {"count": 2}
    assert list(picked(FOUND, without="times_s best")) == ["name", "parts"]
