"""Ring attention: keys and values travel around the ring while each rank attends to the block that it has.

    forward    c - 1 steps of the keys and values of T tokens, each beside 1/c of the attention core
    backward   c - 1 steps of twice as much: keys and values, and their gradients

c ranks, T tokens on each. The block that a rank starts with needs no step, so (c - 1)/c of the core has traffic beside.

Source: H. Liu et al., "Ring Attention with Blockwise Transformers" (arXiv 2310.01889) section 3.
"""

from __future__ import annotations

from lockstep.parallel.group import Levels, send_s
from lockstep.parallel.piece import Flow, Piece
from lockstep.types.arrays import Number, Whole


def pieces(group: Levels, ranks: Whole, block_B: Number, core_s: tuple[Number, Number]) -> tuple[Piece, Piece]:
    """Forward and backward traffic of one layer: blocks of `block_B` beside `core_s` seconds of attention in each."""
    steps, step_s = ranks - 1, send_s(group, block_B)
    around = Flow("send", "cp", steps * block_B, steps * step_s)
    forward, backward = (
        Piece("cp", steps / ranks * side_s, beside=(around * blocks,))
        for side_s, blocks in zip(core_s, (1.0, 2.0), strict=True)
    )
    return forward, backward
