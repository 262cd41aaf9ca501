"""Seconds that no way across levels beats: whole units as ranks, with the ports of all their devices.

Nothing leaves a unit faster than through all its ports, and no rank is faster than its ports of all levels together.
"""

from __future__ import annotations

import numpy as np

from lockstep.collectives.bounds import lower_bound_s
from lockstep.collectives.cost import PlainLink
from lockstep.collectives.levels.hierarchy import Levels, product
from lockstep.types.arrays import Number


def lower_bound_on_levels_s(op: str, levels: Levels, size_B: Number) -> Number:
    """Seconds; broadcasts over the size. `levels` as in `best_on_levels`."""
    ranks, latency_s = product([level[0] for level in levels]), min(level[1] for level in levels)
    rank_Bps = sum(level[2] for level in levels)
    bound_s: Number = 0.0
    below: Number = 1
    for level in levels:
        # The send buffer of an all-to-all belongs to one rank; all other sizes are those of the group.
        unit_B = size_B * (below if op == "all-to-all" else 1)
        ports = PlainLink(latency_s, rank_Bps if below == 1 else below * level[2])
        bound_s = np.maximum(bound_s, lower_bound_s(op, ranks / below, unit_B, ports))
        below *= level[0]
    return bound_s
