"""Ring attention: keys and values travel around the ring while each rank attends to the block that it has.

    forward    c - 1 steps of the keys and values of T tokens, each beside 1/c of the attention core
    backward   c - 1 steps of twice as much: keys and values, and their gradients

c ranks, T tokens on each. The block that a rank starts with needs no step, so (c - 1)/c of the core has traffic beside.

Source: H. Liu et al., "Ring Attention with Blockwise Transformers" (arXiv 2310.01889) section 3.
"""

from __future__ import annotations

from lockstep.base.types.arrays import Whole
from lockstep.simulate.parallel.context.blocks import Blocks
from lockstep.simulate.parallel.group import Levels, send_s
from lockstep.simulate.parallel.piece import Flow, Piece


def pieces(group: Levels, ranks: Whole, blocks: Blocks) -> tuple[Piece, Piece]:
    """Forward and backward traffic of one layer: blocks of keys and values beside attention."""
    steps, step_s = ranks - 1, send_s(group, blocks.key_value_B)
    around = Flow("send", "cp", steps * blocks.key_value_B, steps * step_s)
    forward, backward = (
        Piece("cp", steps / ranks * side_s, beside=(around * times,))
        for side_s, times in zip(blocks.core_s, (1.0, 2.0), strict=True)
    )
    return forward, backward
