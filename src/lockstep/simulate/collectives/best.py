"""The cheapest algorithm, elementwise over arrays of ranks, sizes and links."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, reduce

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.base.types.plain import Json
from lockstep.simulate.collectives.cost import Cost, LinkLike
from lockstep.simulate.collectives.registry import Algorithm, get, own_algorithms


@cache
def contenders(op: str) -> tuple[Algorithm, ...]:
    """Own one-port algorithms of `op` that no other one-port algorithm always beats, in order of registration."""
    every = [get(op, name) for name in own_algorithms(op)]
    return tuple(a for a in every if a.ports == 1 and not a.dominated_by)


def usable(algorithm: Algorithm, link: LinkLike) -> bool:
    """Whether the link can do what the algorithm needs: reduce in its switch, and hand sums to owners if it must."""
    switch = getattr(link, "switch", None)
    return not algorithm.in_switch or (switch is not None and (algorithm.op == "all-reduce" or switch.to_owner))


def best_time_s(
    op: str, ranks: Number, size_B: Number, link: LinkLike, algorithms: Sequence[str] | None = None
) -> Number:
    """Seconds of the fastest algorithm, elementwise; `algorithms` restricts the choice. The cheap path for search."""
    times = (algorithm.price_time_s(ranks, size_B, link) for algorithm in _chosen(op, link, algorithms))
    fastest: Number = reduce(np.minimum, times)
    return fastest


def best(
    op: str,
    ranks: Number,
    size_B: Number,
    link: LinkLike,
    algorithms: Sequence[str] | None = None,
    element_B: float = 0.0,
) -> Cost:
    """Cost of the fastest algorithm, elementwise; `Cost.algorithm` names it (an array of names for arrays).

    Ties go to the algorithm registered first. Raises UnknownName, BadInput.
    """
    names = [algorithm.name for algorithm in _chosen(op, link, algorithms)]
    costs = [get(op, name).price(ranks, size_B, link, element_B) for name in names]
    times = np.stack(np.broadcast_arrays(*(cost.time_s for cost in costs)))
    fastest = np.argmin(times, axis=0)
    if fastest.ndim == 0:
        return costs[int(fastest)]
    fields = [f for f in Cost.__dataclass_fields__ if f != "algorithm"]
    picked: Json = {}
    for field in fields:
        stack = np.stack([np.broadcast_to(getattr(cost, field), fastest.shape) for cost in costs])
        picked[field] = np.take_along_axis(stack, fastest[np.newaxis], axis=0)[0]
    return Cost(**picked, algorithm=np.array(names)[fastest])


def _chosen(op: str, link: LinkLike, algorithms: Sequence[str] | None) -> tuple[Algorithm, ...]:
    """What may be taken on the link: all contenders, or those of `algorithms`."""
    among = contenders(op) if algorithms is None else (get(op, name) for name in algorithms)
    return tuple(algorithm for algorithm in among if usable(algorithm, link))
