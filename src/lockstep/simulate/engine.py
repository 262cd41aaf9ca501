"""`simulate`: a program on a link or a cluster, as a `Timeline`; exact when nothing is random and nothing contends.

One longest-path pass over the program's task graph (`simulate.passes`) with the postal prices of `simulate.prices`.
With `noise`, times vary from draw to draw: the timeline is draw 0 and carries the makespans of all draws as its
`sample`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.errors import BadInput
from lockstep.program import Program, Timeline
from lockstep.simulate.noise import Noise
from lockstep.simulate.passes import node_end, node_start
from lockstep.simulate.prices import Price, durations_s
from lockstep.simulate.sample import Sample

Array = npt.NDArray[Any]
ASSUMPTION = "a message takes latency + size / bandwidth; messages on different lanes do not slow one another down"
# Numbers (nodes x draws) held at a time: 2^22 float64 are 32 MiB per array; 2^20 and 2^23 are both slower (measured).
BATCH_NUMBERS = 1 << 22


def simulate(
    program: Program,
    link: Any = None,
    *,
    price: Price | None = None,
    noise: Noise | None = None,
    draws: int = 1,
    seed: int = 0,
) -> Timeline:
    """When every operation starts and ends, in seconds from the start of the program.

    `link`: one link for all pairs, or a cluster with `link_between`. `price`: (op, algorithm, ranks, size_B) -> seconds
    for collectives that are one operation. `noise`: speed factors and jitter; draw d depends on (seed, d) only.
    """
    if draws < 1:
        raise BadInput(f"draws must be at least 1, got {draws}")
    base_s = durations_s(program, link, price)
    graph = program.graph
    time_s = base_s if noise is None else noise.apply(program, base_s, seed, range(1))[:, 0]
    end = node_end(graph, _node_duration(program, time_s))
    start = node_start(graph, end)
    sample = None if draws == 1 else Sample(makespans_s(program, base_s, noise, draws, seed))
    return Timeline(program, start[graph.node], end[graph.node], sample=sample, assumptions=_assumptions(program))


def _assumptions(program: Program) -> tuple[str, ...]:
    return (ASSUMPTION,) if program.num_messages else ()


def makespans_s(program: Program, base_s: Array, noise: Noise | None, draws: int, seed: int) -> Array:
    """Makespan of each draw, in batches of bounded memory; the batch size does not change the numbers."""
    graph = program.graph
    if noise is None:
        return np.full(draws, node_end(graph, _node_duration(program, base_s)).max())
    batch = max(1, BATCH_NUMBERS // max(1, graph.num_nodes))
    parts = []
    for low in range(0, draws, batch):
        time_s = noise.apply(program, base_s, seed, range(low, min(draws, low + batch)))
        parts.append(node_end(graph, _node_duration(program, time_s)).max(axis=0))
    return np.concatenate(parts)


def _node_duration(program: Program, time_s: Array) -> Array:
    """Time of each node: that of any member, since members of a message or a group agree."""
    result = np.zeros((program.graph.num_nodes, *time_s.shape[1:]))
    result[program.graph.node] = time_s
    return result
