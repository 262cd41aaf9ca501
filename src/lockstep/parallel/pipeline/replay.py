"""When devices start and end, replayed from a pipeline's program without the simulator."""

from __future__ import annotations

import numpy as np

from lockstep.program import Program, longest_path
from lockstep.types.arrays import Array


def replay_s(program: Program) -> tuple[float, float]:
    """(makespan, longest time of one device from its first start to its last end) of a program that needs no links."""
    start_s, end_s = spans_s(program)
    return float(end_s.max()), float((end_s - start_s).max())


def spans_s(program: Program) -> tuple[Array, Array]:
    """(first start, last end) of every device's computing [devices], of a program that needs no links."""
    graph = program.graph
    duration_s = np.zeros(graph.num_nodes)
    np.maximum.at(duration_s, graph.node, program.duration_s)
    end_s = longest_path(graph.before, duration_s)[graph.node]
    on_lane = program.stream == program.streams.index("compute")
    rank, start_s = program.rank[on_lane], (end_s - program.duration_s)[on_lane]
    first_s = np.full(program.ranks, np.inf)
    last_s = np.zeros(program.ranks)
    np.minimum.at(first_s, rank, start_s)
    np.maximum.at(last_s, rank, end_s[on_lane])
    return first_s, last_s
