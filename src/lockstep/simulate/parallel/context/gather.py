"""Context parallelism by all-gather: every rank collects the keys and values of the whole sequence before attention.

    forward    all-gather of c blocks of keys and values
    backward   the same again, and after attention a reduce-scatter of their gradients

c ranks. Nothing overlaps: attention needs all of it. Keys and values are few where queries share them, so the gather is
short against attention over long sequences, and any mask can be used. A layer in work holds c blocks.

Sources: Grattafiori et al. 2024, "The Llama 3 Herd of Models" (arXiv 2407.21783) section 3.3.2; the second gather as in
Transformer Engine 2, attention/dot_product_attention/context_parallel.py (AttnFuncWithCPAndKVAllGather).
"""

from __future__ import annotations

from lockstep.base.types.arrays import Number, Whole
from lockstep.simulate.parallel.context.blocks import Blocks
from lockstep.simulate.parallel.group import Levels, collective_s
from lockstep.simulate.parallel.piece import Flow, Piece


def pieces(group: Levels, ranks: Whole, blocks: Blocks) -> tuple[Piece, Piece]:
    """Forward and backward traffic of one layer."""
    whole_B = ranks * blocks.key_value_B
    gather, scatter = (
        Flow(op, "cp", whole_B, collective_s(op, group, whole_B)) for op in ("all-gather", "reduce-scatter")
    )
    return Piece("cp", before=(gather,)), Piece("cp", before=(gather,), after=(scatter,))


def held_B(ranks: Whole, blocks: Blocks) -> Number:
    """Bytes of the keys and values that a layer in work holds beyond its own block."""
    return (ranks - 1) * blocks.key_value_B
