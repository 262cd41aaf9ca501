"""Expert capacity: how many assignments an expert takes, and which ones are dropped.

    capacity = ceil(factor * tokens * k / experts);   dropped = sum over experts of max(0, load - capacity)
All first choices come before all second choices, and so on; within one rank of choice tokens are served in order.
A dropped assignment passes through the residual connection only.

Source: D. Lepikhin et al., "GShard", ICLR 2021, section 2.2; W. Fedus et al., "Switch Transformers", JMLR 2022, 2.2.
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Array
from lockstep.simulate.parallel.expert.routing import Routing

MOST_FACTOR = 1e9
"""Nothing is dropped at the number of experts already."""


def capacity(tokens: int, top_k: int, experts: int, factor: float) -> int:
    """Assignments that one expert takes."""
    if not 0 < factor <= MOST_FACTOR:
        raise BadInput(
            f"the capacity factor must be above 0 and at most {MOST_FACTOR:g}, got {factor}", "capacity-factor"
        )
    # A hair below, so that 1.1 * 10 is 11 and not 12.
    return math.ceil(factor * tokens * top_k / experts * (1 - 1e-12))


def kept(routing: Routing, most: int | None) -> Array:
    """Mask [tokens, top_k] of the assignments that fit when every expert accepts `most` (None means all)."""
    if most is None:
        return np.ones(routing.choice.shape, dtype=bool)
    # One column of choices after the other, tokens in order within.
    chosen = routing.choice.T.ravel()
    order = np.argsort(chosen, kind="stable")
    first = np.concatenate(([0], np.cumsum(np.bincount(chosen, minlength=routing.experts))))[:-1]
    place = np.empty(len(chosen), dtype=np.int64)
    place[order] = np.arange(len(chosen)) - first[chosen[order]]
    return np.asarray((place < most).reshape(routing.choice.T.shape).T)
