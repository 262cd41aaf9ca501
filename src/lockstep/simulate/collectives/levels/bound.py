"""Seconds that no way across levels beats: whole units as ranks, with the ports of all their devices.

Nothing leaves a unit faster than through all its ports, and no rank is faster than its ports of all levels together.
Between units of a level, switches at that level and beyond it may reduce.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.simulate.collectives.bounds import lower_bound_s
from lockstep.simulate.collectives.cost import PlainLink
from lockstep.simulate.collectives.levels.hierarchy import Levels, product


def lower_bound_on_levels_s(op: str, levels: Levels, size_B: Number) -> Number:
    """Seconds; broadcasts over the size. `levels` as in `best_on_levels`."""
    ranks, latency_s = product([level[0] for level in levels]), min(level[1] for level in levels)
    switches = [switch for level in levels for switch in level[4:5] if switch is not None]
    latency_s = min(latency_s, *(switch.latency_s for switch in switches)) if switches else latency_s
    rank_Bps = sum(_fastest_Bps(level) for level in levels)
    bound_s: Number = 0.0
    below: Number = 1
    for place, level in enumerate(levels):
        # The send buffer of an all-to-all belongs to one rank; all other sizes are those of the group.
        unit_B = size_B * (below if op == "all-to-all" else 1)
        ports = PlainLink(latency_s, rank_Bps if below == 1 else below * _fastest_Bps(level))
        in_switch = any(beyond[4] is not None for beyond in levels[place:] if len(beyond) > 4)
        bound_s = np.maximum(bound_s, lower_bound_s(op, ranks / below, unit_B, ports, in_switch=in_switch))
        below *= level[0]
    return bound_s


def _fastest_Bps(level: tuple[Any, ...]) -> Number:
    """Of a rank's link at a level: as it is, or through its switch."""
    switch = level[4] if len(level) > 4 else None
    fastest: Number = level[2] if switch is None else level[2] * max(1.0, switch.achieved_frac)
    return fastest
