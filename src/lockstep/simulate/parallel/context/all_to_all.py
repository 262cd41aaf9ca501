"""Context parallelism by all-to-all: for attention, ranks hold some heads of all tokens instead of all heads of some.

    forward    all-to-all of queries, keys and values; attention over the whole sequence; all-to-all of its output
    backward   all-to-all of the output's gradient; attention; all-to-all of the gradients of queries, keys and values

Each moves a rank's own tokens once: b of n bytes per rank cross, (c - 1)/c, so traffic per rank falls with c where the
ring's does not. c ranks must divide the heads; of fewer key and value heads each rank gets a copy, which travels too.
Nothing overlaps. A layer in work holds the exchanged queries, keys and values beside its own.

Source: S. A. Jacobs et al., "DeepSpeed Ulysses" (arXiv 2309.14509) section 3.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number, Whole
from lockstep.simulate.parallel.context.blocks import Blocks
from lockstep.simulate.parallel.group import Levels, collective_s
from lockstep.simulate.parallel.piece import Flow, Piece


def flows(group: Levels, ranks: Whole, blocks: Blocks) -> tuple[Flow, Flow]:
    """(inputs of attention, its output), or their gradients."""
    sizes_B = (sent_B(ranks, blocks), np.where(ranks > 1, blocks.output_B, 0.0))
    inputs, output = (
        Flow("all-to-all", "cp", size_B, np.where(ranks > 1, collective_s("all-to-all", group, size_B), 0.0))
        for size_B in sizes_B
    )
    return inputs, output


def sent_B(ranks: Whole, blocks: Blocks) -> Number:
    """Bytes of queries, keys and values of a rank's tokens, with copies of heads that are fewer than ranks."""
    copies = np.maximum(1.0, ranks / blocks.kv_heads)
    return np.where(ranks > 1, blocks.query_B + copies * blocks.key_value_B, 0.0)


def pieces(group: Levels, ranks: Whole, blocks: Blocks) -> tuple[Piece, Piece]:
    """Forward and backward traffic of one layer."""
    inputs, output = flows(group, ranks, blocks)
    return Piece("cp", before=(inputs,), after=(output,)), Piece("cp", before=(output,), after=(inputs,))
