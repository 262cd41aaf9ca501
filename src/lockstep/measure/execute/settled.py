"""Programs with their choices settled: a tree in segments has as many as are best for a link.

Without a link a segment would be one element, and an all-reduce of a megabyte a million messages.
"""

from __future__ import annotations

from lockstep.collectives import PlainLink, get
from lockstep.program import Program

USUAL_LINK = PlainLink(5e-5, 2e9)
"""Assumed where no link is known: loopback in round numbers. It settles choices and predicts nothing."""


def settled(
    op: str, algorithm: str, ranks: int, size_B: float, element_B: float = 4.0, link: PlainLink | None = None
) -> Program:
    """The program of an algorithm on a buffer of `size_B`. Raises UnknownName, BadInput."""
    return get(op, algorithm).program(ranks, size_B, link or USUAL_LINK, element_B)
