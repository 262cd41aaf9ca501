"""Collectives: closed forms, programs, lower bounds, the best choice. One file per algorithm; conventions in `cost`.

`size_B` follows nccl-tests: the buffer (all-reduce, broadcast, reduce), the gathered output (all-gather, gather), the
input (reduce-scatter, scatter), the send buffer of one rank (all-to-all).
"""

from importlib import import_module as _import_module

from lockstep.collectives.best import best, best_time_s, contenders
from lockstep.collectives.bounds import bus_bandwidth_Bps, bus_factor, lower_bound_s, lower_bound_terms
from lockstep.collectives.compare import Comparison, Row, compare, compare_on_levels, forecasts
from lockstep.collectives.cost import Cost, Counts, LinkLike, PlainLink, Terms
from lockstep.collectives.crossover import (
    BestMap,
    Crossover,
    Region,
    best_map,
    best_map_on_levels,
    crossover,
    crossover_on_levels,
    n_star_B,
)
from lockstep.collectives.levels import (
    LevelsBest,
    best_on_levels,
    best_on_levels_time_s,
    lower_bound_on_levels_s,
    program_on_levels,
    sent_on_levels,
    times_on_levels,
    work_on_levels,
)
from lockstep.collectives.messages import MessageRow, Messages, message_programs, messages
from lockstep.collectives.operation import expander, pricer
from lockstep.collectives.registry import MOST_OPERATIONS, Algorithm, algorithms, check_work, get, ops

# One line per algorithm, in the order of the registry: ties in `best` go to the one registered first.
_ALGORITHMS = """
all_reduce.ring all_reduce.rabenseifner all_reduce.double_binary_tree all_reduce.recursive_doubling all_reduce.tree
all_reduce.pipelined_tree all_reduce.bidirectional_ring all_reduce.torus_2d all_reduce.hierarchical all_reduce.direct
all_reduce.naive all_reduce.full_exchange
all_gather.ring all_gather.bruck all_gather.recursive_doubling all_gather.direct
reduce_scatter.ring reduce_scatter.bruck reduce_scatter.recursive_halving reduce_scatter.direct
all_to_all.direct all_to_all.pairwise all_to_all.bruck all_to_all.hierarchical
broadcast.binomial broadcast.scatter_all_gather broadcast.linear
reduce.binomial reduce.reduce_scatter_gather reduce.linear
scatter.binomial scatter.linear gather.binomial gather.linear
parameter_server.synchronous parameter_server.asynchronous parameter_server.replicated gossip.ring
"""
for _name in _ALGORITHMS.split():
    _import_module(f"{__name__}.{_name}")

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
    "Terms",
    "algorithms",
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
    "pricer",
    "program_on_levels",
    "sent_on_levels",
    "times_on_levels",
    "work_on_levels",
]
