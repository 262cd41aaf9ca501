"""What an option takes, in its type: a number with or without a unit.

An option of a type in `UNITS` also takes a list or a range of values (`lockstep.rows`), whose ends have these units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from lockstep.units import BANDWIDTH, COUNT, FLOPS, FRACTION, LENGTH, SIZE, TIME

Quantity: TypeAlias = str | int | float
"""A number, a count (`4M`) or a share (`95%`)."""
Length: TypeAlias = str | int | float
"""Tokens of a sequence, as `8k`, which is 8,192."""
Size: TypeAlias = str | int | float
"""Bytes, as `100MB`."""
Time: TypeAlias = str | int | float
"""Seconds, as `5us`."""
Bandwidth: TypeAlias = str | int | float
"""Bytes per second, as `25GB/s`."""
FlopRate: TypeAlias = str | int | float
"""FLOP per second, as `600T`."""
Times: TypeAlias = str | int | float
"""Seconds; one, or one per stage between commas, which is one value: lists are separated by `;`."""
Counts: TypeAlias = str | int | float
"""Whole numbers that the function itself takes several of between commas."""

Several: TypeAlias = str | int | Sequence[str] | Sequence[int]
"""One value or several, as `4,8`, `1..8x2` or `1f1b,interleaved`, of which a search may choose."""

UNITS: Mapping[str, Mapping[str, float]] = {
    "Quantity": {**COUNT, **FRACTION}, "Size": SIZE, "Time": TIME, "Bandwidth": BANDWIDTH, "FlopRate": FLOPS,
    "Times": TIME, "Length": LENGTH,
}  # fmt: skip
VECTORS = ("Times",)
