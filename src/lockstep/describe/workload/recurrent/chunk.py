"""A recurrence over a sequence, computed in chunks: products inside a chunk and between its tokens and the state.

    FLOPs of a token = sum over products of 2 m n k copies / C, half of it where a mask leaves a triangle ("causal")

C is the number of tokens of a chunk, at most the sequence.
"""

from __future__ import annotations

from collections.abc import Iterable

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number


@dataclass(frozen=True, slots=True)
class Product:
    """An m x k by k x n product that each chunk makes `copies` times."""

    m: Number
    n: Number
    k: Number
    copies: int
    """Of which every rank of a tensor-parallel group has its share."""
    triangle: bool = False
    """Whether a causal mask leaves half of it."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A kernel bound by memory: `elems` of each token, read and written so many times forward and backward."""

    elems: int
    forward: float
    backward: float


def flops_per_token(products: Iterable[Product], chunk: Number, counting: str) -> Number:
    """FLOPs of one token in `products`, by a counting of `flops.py`."""
    total: Number = 0
    for one in products:
        half = 0.5 if one.triangle and counting == "causal" else 1.0
        total = total + half * 2 * one.m * one.n * one.k * one.copies / chunk
    return total
