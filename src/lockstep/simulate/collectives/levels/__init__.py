"""Collectives of a group that spans levels of a hierarchy: NVLink in a node, InfiniBand between nodes, a WAN on top.

`levels` lists (ranks, latency_s, bandwidth_Bps) or (ranks, latency_s, bandwidth_Bps, reduce_s_per_B, switch), innermost
first; numbers or arrays, and a switch that reduces or None.
`ranks`: how many units of the level below make one unit here; their product is the size of the
group, and ranks are numbered innermost level fastest. `bandwidth_Bps`: the rate of ONE RANK of the group at that level,
its own link or its fair share of the node's adapters, so a node with g ranks in the group leaves through
g * bandwidth_Bps. Ports of different levels work at once.

    ring          a flat ring in many channels, so that every adapter works          `ring`
    hierarchical  phase after phase, one level at a time                              `hierarchical`, `regrouped`
    direct        all-to-all with every peer                                          `direct`
Every way has a closed form that broadcasts and a program whose simulation on `Hierarchy` equals it.
"""

from lockstep.simulate.collectives.levels.best import (
    WAYS,
    LevelsBest,
    best_on_levels,
    best_on_levels_time_s,
    program_on_levels,
    sent_on_levels,
    times_on_levels,
    work_on_levels,
)
from lockstep.simulate.collectives.levels.bound import lower_bound_on_levels_s
from lockstep.simulate.collectives.levels.hierarchy import Hierarchy, Levels

__all__ = [
    "WAYS",
    "Hierarchy",
    "Levels",
    "LevelsBest",
    "best_on_levels",
    "best_on_levels_time_s",
    "lower_bound_on_levels_s",
    "program_on_levels",
    "sent_on_levels",
    "times_on_levels",
    "work_on_levels",
]
