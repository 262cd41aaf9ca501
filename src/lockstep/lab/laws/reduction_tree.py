"""Which additions a program makes, and what their rounding costs.

    E error^2 = sum over additions of  h^2 / 12 (1 + 2 / 4^k)  where k > 0,   h: spacing at the rounded sum
k: how many bits finer than h the finer of both sides is. A sum of two numbers of one octave has a single bit too
many, so its error is 0 or h / 2, which is 3/2 of what an even spread over a step gives; k <= 0 is exact. The bits cut
off are taken as even and independent. Depth and shape come from running the program on symbols; adding the zeros that
a server begins with is no addition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lockstep.lab.findings import Array
from lockstep.methods.number_format import NumberFormat
from lockstep.program import Program
from lockstep.program.executor import execute

MIX = np.uint64(0x9E3779B97F4A7C15)
"""An odd number without pattern: the golden ratio in 64 bits, as in splitmix64 (Steele, Lea, Flood 2014)."""


NOTHING = -1
"""Depth of the zeros that a server begins with."""


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """All of shape (rank, entry)."""

    depth: Array
    """Additions one after the other on the longest way to the entry."""
    signature: Array
    """Equal for equal trees, where a + b is b + a."""


def tree_of(program: Program, ranks: int, elems: int) -> Tree:
    """The additions behind every entry of `data`."""
    empty = program.ranks - ranks
    levels = [np.zeros(elems, np.int64)] * ranks + [np.full(elems, NOTHING)] * empty
    depth = np.array(execute(program, {"data": levels}, combine=_deeper)["data"][:ranks])
    leaves = [np.full(elems, rank + 1, np.uint64) * MIX for rank in range(ranks)]
    leaves += [np.zeros(elems, np.uint64)] * empty
    signature = np.array(execute(program, {"data": leaves}, combine=_mixed)["data"][:ranks])
    return Tree(np.maximum(depth, 0), signature)


def _deeper(first: Array, second: Array) -> Array:
    """One addition more than the deeper side, where there is something on both."""
    real = (first > NOTHING) & (second > NOTHING)
    return np.maximum(first, second) + real


def rounding_sum(chosen: NumberFormat) -> Callable[[Array, Array], Array]:
    """A sum of (value, energy) pairs: values rounded to the format, energies as above."""

    def add(first: Array, second: Array) -> Array:
        values = chosen.rounded(first[:, 0] + second[:, 0])
        step = chosen.spacing(values)
        finer = np.minimum(_finest(first[:, 0], chosen), _finest(second[:, 0], chosen))
        share = np.where(finer < step, (1 + 2 * (finer / step) ** 2) / 12, 0.0)
        return np.stack([values, first[:, 1] + second[:, 1] + share * step**2], axis=1)

    return add


def _finest(values: Array, chosen: NumberFormat) -> Array:
    """Spacing at the values; a zero has no bits that could be cut off."""
    return np.where(values == 0, np.inf, chosen.spacing(values))


def _mixed(first: Array, second: Array) -> Array:
    """A number for the sum that both orders of its sides share."""
    total = first + second
    mixed = (total ^ (total >> np.uint64(31))) * MIX
    return np.where((first == 0) | (second == 0), total, mixed ^ (mixed >> np.uint64(29)))
