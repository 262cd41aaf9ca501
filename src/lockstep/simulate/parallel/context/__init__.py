"""Context parallelism: one sequence shared by several ranks, whose attention needs the keys and values of all.

A file for each kind. `pieces` gives the traffic of a layer, `partials` into how many parts its attention falls, whose
outputs are added up, and `held_B` what a layer in work holds for it.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number, Whole
from lockstep.simulate.parallel.context import all_to_all, gather, mixed, ring
from lockstep.simulate.parallel.context.blocks import Blocks as Blocks
from lockstep.simulate.parallel.group import Levels
from lockstep.simulate.parallel.piece import Piece

KINDS = ("ring", "gather", "all-to-all", "mixed")
_PIECES = {"ring": ring.pieces, "gather": gather.pieces, "all-to-all": all_to_all.pieces, "mixed": mixed.pieces}


def pieces(kind: str, group: Levels, ranks: Whole, blocks: Blocks) -> tuple[Piece, Piece]:
    """Forward and backward traffic of one layer, by `kind`."""
    return _PIECES[kind](group, ranks, blocks)


def partials(kind: str, ranks: Whole, kv_heads: Number) -> Whole:
    """Partial outputs of attention that a rank adds up."""
    if kind == "ring":
        return ranks
    return ranks // mixed.neighbours(ranks, kv_heads) if kind == "mixed" else 1


def held_B(kind: str, ranks: Whole, blocks: Blocks) -> Number:
    """Bytes that a layer in work holds of other ranks' tokens; a ring's one block in flight is not counted."""
    if kind == "ring":
        return 0.0
    if kind == "gather":
        return gather.held_B(ranks, blocks)
    near = ranks if kind == "all-to-all" else mixed.neighbours(ranks, blocks.kv_heads)
    return np.asarray(all_to_all.sent_B(near, blocks))
