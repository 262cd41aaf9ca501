"""Context parallelism in two levels: all-to-all among u neighbouring ranks, a ring of c/u of them across.

    forward    all-to-all of queries, keys and values; (c/u - 1) ring steps beside attention; all-to-all of the output
    backward   the same with gradients, twice as much around the ring

A block that goes around the ring has u times the tokens and 1/u of the heads of a rank's own, so as many bytes, and it
makes u times fewer steps. u is the largest number that divides c and the key and value heads on a rank, so that none is
copied; the neighbours are the innermost ranks of the group, on the fastest links.

Source: J. Fang, S. Zhao, "USP: a unified sequence parallelism approach" (arXiv 2405.07719) section 4.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lockstep.base.types.arrays import Ints, Number, Whole
from lockstep.simulate.parallel.context import all_to_all, ring
from lockstep.simulate.parallel.context.blocks import Blocks
from lockstep.simulate.parallel.group import Levels, inner, outer
from lockstep.simulate.parallel.piece import Piece


def neighbours(ranks: Whole, kv_heads: Number) -> Ints:
    """Ranks of the all-to-all."""
    found: Ints = np.gcd(ranks, np.asarray(kv_heads, dtype=np.int64))
    return found


def pieces(group: Levels, ranks: Whole, blocks: Blocks) -> tuple[Piece, Piece]:
    """Forward and backward traffic of one layer."""
    near = neighbours(ranks, blocks.kv_heads)
    inside = inner(group, near)
    inputs, output = all_to_all.flows(inside, near, blocks)
    forward, backward = ring.pieces(outer(group, inside), ranks // near, blocks)
    return replace(forward, before=(inputs,), after=(output,)), replace(backward, before=(output,), after=(inputs,))
