"""Collectives: closed forms, programs, lower bounds, the best choice. One file per algorithm; conventions in `cost`.

`size_B` follows nccl-tests: the buffer (all-reduce, broadcast, reduce), the gathered output (all-gather, gather), the
input (reduce-scatter, scatter), the send buffer of one rank (all-to-all).
"""

from lockstep.base.registry import import_all as _import_all
from lockstep.simulate.collectives.best import best, best_time_s, contenders, usable
from lockstep.simulate.collectives.bounds import bus_bandwidth_Bps, bus_factor, lower_bound_s, lower_bound_terms
from lockstep.simulate.collectives.compare import Comparison, Row, compare, compare_on_levels, forecasts
from lockstep.simulate.collectives.cost import Cost, Counts, LinkLike, PlainLink, SwitchLike, Terms
from lockstep.simulate.collectives.crossover import (
    BestMap,
    Crossover,
    Region,
    best_map,
    best_map_on_levels,
    crossover,
    crossover_on_levels,
    n_star_B,
)
from lockstep.simulate.collectives.levels import (
    LevelsBest,
    best_on_levels,
    best_on_levels_time_s,
    lower_bound_on_levels_s,
    program_on_levels,
    sent_on_levels,
    times_on_levels,
    work_on_levels,
)
from lockstep.simulate.collectives.messages import MessageRow, Messages, message_programs, messages
from lockstep.simulate.collectives.op import OPS as _OPS
from lockstep.simulate.collectives.operation import expander, pricer
from lockstep.simulate.collectives.registry import (
    MOST_OPERATIONS,
    Algorithm,
    algorithms,
    among_ranks,
    check_work,
    get,
    ops,
    own_algorithms,
)
from lockstep.simulate.collectives.registry import REGISTRY as _REGISTRY

for _op in _OPS:
    _import_all(f"{__name__}.{_op.replace('-', '_')}")
_REGISTRY.arrange(" ".join(f"{op}.{name}" for op, needs in _OPS.items() for name in needs.first.split()))

__all__ = [
    "MOST_OPERATIONS",
    "Algorithm",
    "BestMap",
    "Comparison",
    "Cost",
    "Counts",
    "Crossover",
    "LevelsBest",
    "LinkLike",
    "MessageRow",
    "Messages",
    "PlainLink",
    "Region",
    "Row",
    "SwitchLike",
    "Terms",
    "algorithms",
    "among_ranks",
    "best",
    "best_map",
    "best_map_on_levels",
    "best_on_levels",
    "best_on_levels_time_s",
    "best_time_s",
    "bus_bandwidth_Bps",
    "bus_factor",
    "check_work",
    "compare",
    "compare_on_levels",
    "contenders",
    "crossover",
    "crossover_on_levels",
    "expander",
    "forecasts",
    "get",
    "lower_bound_on_levels_s",
    "lower_bound_s",
    "lower_bound_terms",
    "message_programs",
    "messages",
    "n_star_B",
    "ops",
    "own_algorithms",
    "pricer",
    "program_on_levels",
    "sent_on_levels",
    "times_on_levels",
    "usable",
    "work_on_levels",
]
