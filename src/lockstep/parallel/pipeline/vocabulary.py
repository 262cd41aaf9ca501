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

Left out: between which passes of other micro-batches these run. The first micro-batch's wait for its logits, and the
last one's, are not in the price, which is so a bound from below by a few thousandths of a step.

Source: Yeung et al. 2024, "Balancing Pipeline Parallelism with Vocabulary Parallelism" (arXiv 2411.05288), section 4
(algorithms 1 and 2) and figure 10 (p + 2 and p + 1 micro-batches with 1F1B).
"""

from __future__ import annotations

from lockstep.parallel.group import Levels, collective_s
from lockstep.parallel.piece import Flow, Piece
from lockstep.types.arrays import Number

BARRIERS = {"none": 0, "vocab-1": 2, "vocab-2": 1}
"""Setting -> micro-batches more that every stage holds."""
STATISTICS_B = 8.0
"""Bytes per token: maximum and sum in fp32."""


def pieces(
    stages: Levels, size_B: Number, tokens: Number, kernels_s: tuple[Number, Number]
) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """(forward, backward) traffic of a stage, beside `kernels_s` of its passes.

    `size_B` are bytes of a micro-batch between two stages on one rank, `tokens` its tokens there.
    """
    hidden = tuple(Flow(op, "pp", size_B, collective_s(op, stages, size_B)) for op in ("reduce", "broadcast"))
    statistics_B = STATISTICS_B * tokens
    statistics = Flow("all-reduce", "pp", statistics_B, collective_s("all-reduce", stages, statistics_B))
    return (Piece("pp", kernels_s[0], beside=(*hidden, statistics)),), (Piece("pp", kernels_s[1], beside=hidden),)
