"""`Part`: one array of a rank's state, and how the ranks share it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.errors import BadInput

Array = npt.NDArray[Any]
REPLICATED, SHARDED, OWN = "replicated", "sharded", "own"
KINDS = (REPLICATED, SHARDED, OWN)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """An array under a name.

    replicated: the same on every rank, kept once; sharded: the elements from `start` of a vector of `total`; own: this
    rank's alone, which no other number of ranks can use.
    """

    name: str
    array: Array
    kind: str = REPLICATED
    start: int = 0
    total: int = 0


def assembled(name: str, shards: list[Part]) -> Array:
    """The whole vector from its shards, in any order; elements beyond `total` are padding. Raises BadInput for gaps."""
    total = shards[0].total
    whole = np.empty(total, dtype=shards[0].array.dtype)
    reached = 0
    for shard in sorted(shards, key=lambda one: one.start):
        if shard.start > reached:
            break
        stop = min(shard.start + shard.array.size, total)
        whole[shard.start : stop] = shard.array.ravel()[: max(0, stop - shard.start)]
        reached = max(reached, stop)
    if reached < total:
        raise BadInput(f"the shards of {name} end at element {reached} of {total}")
    return whole
