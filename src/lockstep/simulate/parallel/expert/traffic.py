"""Expert-parallel traffic of one layer and micro-batch, and what of it shared experts hide.

Tokens are dispatched to their experts and results combined, forward and again backward:

    all-to-all     each of the k copies of a token travels by itself: T k h elements, balanced over the group
    once per node  a token crosses a level once for each unit (node, device) there that has experts of its, and is
                   copied inside; levels work at the same time (DeepEP):

        max over levels of  (c - 1) latency + T h copies (1 - 1/c) bytes / bandwidth,    copies: `spread.py`

Experts that are cut (etp > 1) need the rows of all etp ranks: an all-gather follows the dispatch, a reduce-scatter of
their partial results comes before the combine, of etp T k h elements each.

c children of a level in the group. Dispatched tokens may have
other bytes per element than combined ones. T tokens on the rank, h hidden.

Beside S seconds of shared experts, which need no exchange, an exchange of X seconds that takes a share of the device
lets min(S, (1 - share) X) of them through, so max(X - S, share X) of it is exposed. Where passes of two micro-batches
take turns layer by layer (Megatron Core's --overlap-moe-expert-parallel-comm), S are all kernels of a layer; the first
and last micro-batches, which have no other beside them, are priced as the rest. What cells of a pipeline hide of it:
`simulate/parallel/pipeline/times.py`.

Under routing that is not balanced the exchange takes as long as the busiest rank's: its share of all copies over the
mean, or where tokens cross once its copies at every level by themselves (`load.py`). Of routing limited to groups only
a bound is known: the share of all copies, and no token twice. Message by message: `exchange.py`.

Sources: GShard (arXiv 2006.16668); DeepSeek-AI 2024 (arXiv 2412.19437), section 3.2.2 (once across InfiniBand, then
NVLink, both at once); 3.3.4 for dispatch in fp8.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number, Whole
from lockstep.simulate.parallel.expert.load import Load, busiest_copies
from lockstep.simulate.parallel.expert.spread import Choices
from lockstep.simulate.parallel.group import Levels, collective_s
from lockstep.simulate.parallel.piece import Flow, Piece, total_s

OVERLAPS = ("none", "cells", "shared", "passes")


@dataclass(frozen=True, slots=True)
class Uneven:
    """How unevenly the tokens of a group choose experts."""

    tokens: Number = 1.0
    load: Load | None = None
    """How popular experts are; None where all get equally many."""
    busiest: Number = 1.0
    """Copies that the busiest rank gets over the mean."""


EVEN = Uneven()


def flows(
    group: Levels, dispatched_B: Number, combined_B: Number, choices: Choices, once_per_node: bool,
    uneven: Uneven = EVEN,
) -> tuple[Flow, Flow]:  # fmt: skip
    """(dispatch, combine) of one pass of a layer; `dispatched_B`, `combined_B` of one copy of every token of a rank."""
    dispatch, combine = (
        Flow(
            "all-to-all",
            "ep",
            size_B * choices.top_k * uneven.busiest,
            one_way_s(group, size_B, choices, once_per_node, uneven),
        )
        for size_B in (dispatched_B, combined_B)
    )
    return dispatch, combine


def gathered(group: Levels, ways: Whole, dispatched_B: Number, combined_B: Number) -> tuple[Flow, Flow]:
    """(gather, reduction) of the rows among the `ways` ranks that cut an expert; bytes are of all rows of one rank."""
    gather, scatter = (
        Flow(op, "etp", np.where(ways > 1, ways * size_B, 0.0), collective_s(op, group, ways * size_B))
        for op, size_B in (("all-gather", dispatched_B), ("reduce-scatter", combined_B))
    )
    return gather, scatter


def one_way_s(group: Levels, token_B: Number, choices: Choices, once_per_node: bool, uneven: Uneven = EVEN) -> Number:
    """Seconds of one exchange, `token_B` bytes for one copy of every token of the rank."""
    if not once_per_node:
        return collective_s("all-to-all", group, token_B * choices.top_k * uneven.busiest)
    seconds: Number = 0.0
    apart: Whole = 1
    for children, latency_s, bandwidth_Bps, *_ in reversed(group):
        apart = apart * children
        copies = _copies(np.minimum(apart, choices.experts), choices, uneven)
        moved_B = token_B * copies * (1.0 - 1.0 / children)
        seconds = np.maximum(seconds, (children - 1) * latency_s + moved_B / bandwidth_Bps)
    return seconds


def _copies(units: Whole, choices: Choices, uneven: Uneven) -> Number:
    """Copies of a token that travel between so many units, of the busiest unit."""
    if uneven.load is None:
        return choices.units_of[units]
    if choices.limited:
        return np.minimum(choices.units_of[units] * uneven.busiest, units)
    return busiest_copies(choices, units, uneven.tokens, uneven.load)


def pieces(
    dispatch: tuple[Flow, ...],
    combine: tuple[Flow, ...],
    overlap: str,
    beside_s: tuple[Number, Number],
    device_frac: float,
) -> tuple[Piece, Piece]:
    """Forward and backward traffic of one layer beside `beside_s` seconds of kernels in each."""
    if overlap not in ("shared", "passes"):
        alone = Piece("ep", before=dispatch, after=combine)
        return alone, alone
    moved = (*dispatch, *combine)
    through_s = (1.0 - device_frac) * total_s(moved)
    forward, backward = (Piece("ep", np.minimum(side_s, through_s), beside=moved) for side_s in beside_s)
    return forward, backward
