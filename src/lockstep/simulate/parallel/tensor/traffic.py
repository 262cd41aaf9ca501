"""Tensor-parallel traffic of one layer and micro-batch, and what of it the products hide.

Two rounds forward and two backward (one where attention and feed-forward run side by side), of T h elements each:
an all-reduce, or with sequence parallelism an all-gather and a reduce-scatter of the same bytes.

Overlap:
    none        kernels wait for all of it
    gradients   the reduction of an input's gradient runs beside the product for the weight's gradient. Of the backward
                products half give weight gradients, and half of these belong to layers split by outputs
    all         products are cut in CHUNKS pieces that talk while others compute; the last piece is always exposed

Transformer Engine, and torchao with scales of tensors, gather what products read in their format (`narrow_gathers`);
NeMo's recipes for H100 send what forward products in fp8 give in fp8 to be added (`narrow_reductions`; fp8_buf of its
tp_overlap_configs/userbuffers.py). Transformer Engine: pytorch/distributed.py, gather_along_first_dim; pytorch/ao:
torchao/float8/float8_tensor_parallel.py, PrepareFloat8ModuleInput and, backward, Float8RowwiseParallel.

Products beside which other traffic is hidden already (`taken_s`) hide no more.

With sequence parallelism a rank may keep its own part of what layers split by outputs read (`Habits.gathers_again`).
It then gathers it a second time for their weight gradients, beside the products for their inputs' gradients, a quarter
of the backward products; where nothing overlaps, before them.

T tokens on the rank, h hidden. Sources: M. Shoeybi et al., "Megatron-LM" (arXiv 1909.08053) section 3; V. Korthikanti
et al. (arXiv 2205.05198) sections 4.2.2, with the second gather (Megatron-LM, core/tensor_parallel/layers.py,
LinearWithGradAccumulationAndAsyncCommunication; Transformer Engine, ub_bulk_dgrad; nanotron, tp_recompute_allgather);
S. Wang et al., ASPLOS 2023, for products in pieces (`chunked.py`).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number, Truth, Whole
from lockstep.simulate.collectives import bus_factor
from lockstep.simulate.parallel.group import Levels, collective_s
from lockstep.simulate.parallel.piece import Flow, Piece

OVERLAPS = ("none", "gradients", "all")
CHUNKS = 4
"""Pieces into which overlapped products are cut: assumed, as in Transformer Engine's examples."""


def flows(
    group: Levels, size_B: Number, split: Truth, rounds: float = 2, narrow: tuple[float, float] = (1.0, 1.0)
) -> tuple[Flow, Flow]:
    """(gather, reduction) of one pass of a layer: `rounds` collectives of `size_B` each, `split` by sequence or not, of
    which what is split moves the shares `narrow` in either.
    """
    gather_B, scatter_B = (share * size_B for share in narrow)
    gather_s, scatter_s = collective_s("all-gather", group, gather_B), collective_s("reduce-scatter", group, scatter_B)
    op = "reduce-scatter" if np.all(split) else "all-reduce"
    reduced_s = np.where(split, scatter_s, collective_s("all-reduce", group, size_B))
    return (
        Flow("all-gather", "tp", rounds * gather_B * split, rounds * np.where(split, gather_s, 0.0)),
        Flow(op, "tp", rounds * np.where(split, scatter_B, size_B), rounds * reduced_s),
    )


def sent_B(moved: tuple[Flow, ...], ranks: Whole) -> Number:
    """Bytes that one rank sends for these flows: every way that prices them sends the least there is.

    Source: P. Patarasuk, X. Yuan, JPDC 69 (2009), section 3.
    """
    return sum((bus_factor(flow.op, ranks) * flow.size_B for flow in moved), 0.0)


def pieces(
    moved: tuple[tuple[Flow, Flow], tuple[Flow, Flow]],
    overlap: str,
    products_s: tuple[Number, Number],
    taken_s: tuple[Number, Number] = (0.0, 0.0),
) -> tuple[Piece, Piece]:
    """The traffic `moved` of a forward and of a backward pass beside `products_s` seconds of products in each."""
    if overlap == "all":
        return _in_chunks(moved[0], products_s[0] - taken_s[0]), _in_chunks(moved[1], products_s[1] - taken_s[1])
    there, back = (Piece("tp", before=(gather,), after=(reduction,)) for gather, reduction in moved)
    if overlap == "none":
        return there, back
    weight_s = np.maximum(0.0, products_s[1] / 4.0 - taken_s[1])
    return there, Piece("tp", weight_s, before=back.before, beside=back.after)


INPUTS_FRAC = 0.25
"""Of the backward products, those that give gradients of what layers split by outputs read."""


def gathered_again(gather: Flow, overlap: str, products_s: Number) -> Piece:
    """The second gather of a backward pass with `products_s` seconds of products."""
    if overlap == "none":
        return Piece("tp", before=(gather,))
    return Piece("tp", INPUTS_FRAC * products_s, beside=(gather,))


def _in_chunks(moved: tuple[Flow, Flow], products_s: Number) -> Piece:
    """All but the last of CHUNKS pieces beside the products."""
    beside, after = (tuple(flow * share for flow in moved) for share in (1.0 - 1.0 / CHUNKS, 1.0 / CHUNKS))
    return Piece("tp", np.maximum(0.0, products_s), beside=beside, after=after)
