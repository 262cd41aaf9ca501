"""A setting of a wrong kind is refused at its name, for every experiment of the lab and every training method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.base.settings import read_settings
from lockstep.learn.lab import GROUPS, find_experiment
from lockstep.run.train import METHODS

HUGE = 10**5000
"""More digits than Python writes."""


class Unknown:
    """An object of a class that nothing takes."""


WRONG: list[Any] = [
    Unknown(), Unknown, b"8", bytearray(b"8"), memoryview(b"8"), {8}, {"a": object()}, {}, 8j, iter((8,)), None, ...,
    np.array([8.0, 9.0]), [[8, [9]]], [Unknown()], [None], [float("nan")], [b"8"], [], Decimal("8"), Fraction(1, 2),
    float("nan"), float("inf"), -float("inf"), np.float64("nan"), HUGE, -HUGE, [HUGE], [-HUGE], Path("1"),
    NotImplemented,
]  # fmt: skip


def kinds() -> Iterator[tuple[str, type[Any]]]:
    """Every class of settings."""
    for group in GROUPS:
        for name in group.experiments:
            yield name, find_experiment(name).settings
    for name, method in METHODS.own.items():
        yield f"train {name}", method.settings


@pytest.mark.parametrize(("name", "kind"), [*kinds()])
def test_settings_of_a_wrong_type_are_refused_by_name(name: str, kind: type[Any]) -> None:
    for one in fields(kind):
        for value in WRONG:
            with pytest.raises(BadInput) as caught:
                read_settings(kind, {one.name: value})
            assert caught.value.where == f"--set {one.name}", (name, one.name, type(value))
            assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("text", ["", " ", "\0", "\ud800", "ü", "x" * 100_000, "-", "0x10"])
def test_an_invalid_law_is_refused_at_its_setting(text: str) -> None:
    with pytest.raises(BadInput, match=r"^--set law: unknown law"):
        lockstep.converge("consistency", {"law": text})


@pytest.mark.parametrize("given", [8, [1], "a", [("condition", 1)], {1: 2}, {None: 1}])
def test_settings_are_a_mapping_of_names(given: Any) -> None:
    with pytest.raises(BadInput, match=r"^--set: expected a mapping of names to values"):
        lockstep.converge("noise-scale", given)
