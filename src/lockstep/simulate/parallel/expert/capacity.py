"""Expert capacity: how many assignments an expert takes, and which ones are dropped.

    capacity = ceil(factor * tokens * k / experts);   dropped = sum over experts of max(0, load - capacity)
All first choices come before all second choices, and so on; among equal choices tokens are served in order. A dropped
assignment passes through the residual connection only. Every device drops of its own tokens, without asking others:
an expert takes so many of each device, and more are dropped than if all tokens were counted together.

Source: D. Lepikhin et al., "GShard", ICLR 2021, section 2.2 (local groups); W. Fedus et al., "Switch Transformers",
JMLR 2022, 2.2. Megatron Core and DeepSpeed count so too; tests/real asks them.
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Array, Whole
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


def capacities(tokens: int, top_k: int, experts: int, factor: float, ranks: int) -> Array:
    """Assignments that one expert takes of the tokens of each rank [ranks]."""
    return np.array([capacity(int(one), top_k, experts, factor) for one in shares(tokens, ranks)])


def shares(tokens: int, ranks: int) -> Array:
    """Tokens of each rank [ranks]: they lie in equal runs, the first ones larger by one."""
    return tokens // ranks + (np.arange(ranks) < tokens % ranks)


def kept(routing: Routing, most: Whole | None) -> Array:
    """Mask [tokens, top_k] of the assignments that fit when every expert accepts `most` of them.

    `most` is one number for all tokens, or one for each rank of them (`capacities`); None accepts all.
    """
    if most is None:
        return np.ones(routing.choice.shape, dtype=bool)
    tokens, limits = len(routing.choice), np.atleast_1d(most)
    home = np.repeat(np.arange(len(limits)), shares(tokens, len(limits)))
    # One column of choices after the other, tokens in order within.
    chosen = (routing.choice.T + home * routing.experts).ravel()
    order = np.argsort(chosen, kind="stable")
    first = np.concatenate(([0], np.cumsum(np.bincount(chosen, minlength=len(limits) * routing.experts))))[:-1]
    place = np.empty(len(chosen), dtype=np.int64)
    place[order] = np.arange(len(chosen)) - first[chosen[order]]
    return np.asarray((place.reshape(routing.choice.T.shape) < limits[home]).T)
