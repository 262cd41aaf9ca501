"""What an option takes, in its type: a number with or without a unit.

An option of a type with a `Unit` also takes a list or a range of values (`lockstep.base.rows`), whose ends have these
units; `Counts` alone does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeAlias

from lockstep.base.records import dataclass
from lockstep.base.units import BANDWIDTH, COUNT, FLOPS, FRACTION, LENGTH, SIZE, TIME


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """How the numbers of a type may be written."""

    wanted: str
    """What a message asks for."""
    factors: Mapping[str, float]
    """Of each unit, to SI units."""
    listed: bool = True
    """Whether several values, each for an answer of its own, may be given."""
    vector: bool = False
    """Whether one value may have several numbers, one per stage, separated by commas."""


@dataclass(frozen=True, slots=True)
class One:
    """Of a type of which a search may be given several values, that of each."""

    kind: type


Quantity: TypeAlias = Annotated[str | int | float, Unit("a number such as 8, 4M or 95%", {**COUNT, **FRACTION})]
"""A number, a count (`4M`) or a share (`95%`)."""
Length: TypeAlias = Annotated[str | int | float, Unit("a length such as 8192 or 8k", LENGTH)]
"""Tokens of a sequence, as `8k`, which is 8,192."""
Size: TypeAlias = Annotated[str | int | float, Unit("a size such as 100MB or 1GiB", SIZE)]
"""Bytes, as `100MB`."""
Time: TypeAlias = Annotated[str | int | float, Unit("a time such as 10us or 2h", TIME)]
"""Seconds, as `5us`."""
Bandwidth: TypeAlias = Annotated[str | int | float, Unit("a bandwidth such as 25GB/s or 400Gbit/s", BANDWIDTH)]
"""Bytes per second, as `25GB/s`."""
FlopRate: TypeAlias = Annotated[str | int | float, Unit("a FLOP rate such as 312T", FLOPS)]
"""FLOP per second, as `600T`."""
Times: TypeAlias = Annotated[str | int | float, Unit("a time such as 10ms, or one per stage", TIME, vector=True)]
"""Seconds; one, or one per stage between commas, which is one value: lists are separated by `;`."""
Counts: TypeAlias = Annotated[str | int | float, Unit("whole numbers such as 4,8", COUNT, listed=False)]
"""Whole numbers that the function itself takes several of between commas."""

Quantities: TypeAlias = Annotated[
    str | int | float | Sequence[str] | Sequence[int], Unit("a number such as 8, 4M or 95%", {**COUNT, **FRACTION})
]
"""A number; a search may be given several, as `4,8`, `1..8x2` or a list."""
Names: TypeAlias = Annotated[str | Sequence[str], One(str)]
"""A name; a search may be given several, as `1f1b,interleaved` or a list."""
