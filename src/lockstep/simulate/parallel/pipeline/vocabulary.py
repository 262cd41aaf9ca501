"""Vocabulary layers spread over the stages of a pipeline: their traffic, and the micro-batches that wait for it.

Each stage holds 1/p of the rows of embedding and head. Of every micro-batch

    forward    the stages' parts of the embedded tokens are added up on the first stage; the last layer's output goes
               to all stages, which compute their logits; the maximum and the sum of exponentials of each token, two
               fp32 numbers, are reduced over all
    backward   the stages' parts of the gradient of that output are added up on the last stage; the gradient of the
               embedded tokens goes from the first stage to all

All of it runs beside kernels of other micro-batches on each stage. A micro-batch waits for the last stage's output and
for the statistics (`vocab-1`: two barriers), or for both at once where the gradient is computed before the statistics
are known and scaled afterwards (`vocab-2`: one): each barrier keeps one micro-batch more alive on every stage.
`interlaced` is the older way: all stages stop for every micro-batch's vocabulary layers and wait for their traffic,
and hold half as many micro-batches more.

Left out: between which passes of other micro-batches these run. The first micro-batch's wait for its logits, and the
last one's, are not in the price, which is so a bound from below by a few thousandths of a step.

Source: Yeung et al. 2024, "Balancing Pipeline Parallelism with Vocabulary Parallelism" (arXiv 2411.05288), section 4
(algorithms 1 and 2) and figure 10 (p + 2 and p + 1 micro-batches with 1F1B); interlaced: Lin et al. 2024, "nnScaler"
(OSDI), whose memory is 1.5 times that of 1F1B as Yeung et al. count it.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.simulate.parallel.group import Levels, collective_s
from lockstep.simulate.parallel.piece import Flow, Piece

BARRIERS = {"none": 0, "interlaced": 1, "vocab-1": 2, "vocab-2": 1}
"""Setting -> waits of a micro-batch, during each of which another one's logits are kept."""
INTERLACED = "interlaced"
STATISTICS_B = 8.0
"""Bytes per token: maximum and sum in fp32."""


def held(how: str, live: Number, microbatches: Number) -> Number:
    """Micro-batches that a stage holds which would hold `live` of `microbatches` with whole vocabulary layers."""
    more = 0.5 * live if how == INTERLACED else BARRIERS[how]
    return np.minimum(live + more, microbatches) if how != "none" else live


def pieces(
    how: str, stages: Levels, size_B: Number, tokens: Number, kernels_s: tuple[Number, Number]
) -> tuple[Piece, Piece]:
    """Traffic of a stage forward and backward, beside `kernels_s` of its passes, or after them where interlaced.

    `size_B` are bytes of a micro-batch between two stages on one rank, `tokens` its tokens there.
    """
    # Of all ranks an all-reduce does both and more, so neither takes longer.
    most_s, statistics_B = collective_s("all-reduce", stages, size_B), STATISTICS_B * tokens
    hidden = tuple(
        Flow(op, "pp", size_B, np.minimum(collective_s(op, stages, size_B), most_s)) for op in ("reduce", "broadcast")
    )
    statistics = Flow("all-reduce", "pp", statistics_B, collective_s("all-reduce", stages, statistics_B))
    if how == INTERLACED:
        return Piece("pp", after=(*hidden, statistics)), Piece("pp", after=hidden)
    return Piece("pp", kernels_s[0], beside=(*hidden, statistics)), Piece("pp", kernels_s[1], beside=hidden)
