"""`simulate`: a program on a link or a cluster, as a `Timeline`; exact when nothing is random and nothing contends.

One longest-path pass over the program's task graph with the postal prices of `simulate.prices`.
With `noise`, times vary from draw to draw: the timeline is draw 0 and carries the makespans of all draws as its
`sample`.

    start[v] = max over predecessors u of end[u]        end[v] = start[v] + duration[v]

Two ways to take the pass, bit for bit the same: `longest_path` walks over Python lists (thin graphs, one draw),
`wavefront_end` takes whole levels at a time in numpy, for any number of draws at once (wide graphs, Monte Carlo)."""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Array
from lockstep.simulate.play.noise import Noise
from lockstep.simulate.play.prices import Price, durations_s
from lockstep.simulate.play.sample import Sample
from lockstep.simulate.program import Program, TaskGraph, Timeline, longest_path

# Mean nodes x draws per level above which numpy levels beat Python lists (measured by benchmarks/engine.py).
WIDE = 48
ASSUMPTION = "a message takes latency + size / bandwidth; messages on different lanes do not slow one another down"
# Numbers (nodes x draws) held at a time: 2^22 float64 are 32 MiB per array; 2^20 and 2^23 are both slower (measured).
BATCH_NUMBERS = 1 << 22


def node_end(graph: TaskGraph, duration: Array) -> Array:
    """End of each node; `duration` has shape (nodes,) or (nodes, draws)."""
    draws = duration.shape[1] if duration.ndim == 2 else 1
    # Finding levels costs about one pass over lists, so a program that is simulated once never needs them.
    again = "passed_before" in vars(graph)
    if (draws > 1 or again) and graph.is_wide(WIDE / max(1, draws)):
        return wavefront_end(graph, duration)
    _ = graph.passed_before
    if duration.ndim == 1:
        return longest_path(graph.before, duration)
    return np.stack([longest_path(graph.before, duration[:, draw]) for draw in range(draws)], axis=1)


def wavefront_end(graph: TaskGraph, duration: Array) -> Array:
    """End of each node, level by level."""
    front = graph.wavefront
    weight = duration[front.order]
    end = np.empty_like(weight)
    end[0] = weight[0]
    first, others = front.before[0], front.before[1:]
    for level, (low, high) in enumerate(zip(front.start[1:-1], front.start[2:], strict=True), start=1):
        latest = end.take(first[low:high], axis=0, mode="clip")
        for before, counts in zip(others, front.counts, strict=True):
            num = counts[level]
            if not num:
                break
            part = latest[:num]
            np.maximum(part, end.take(before[low : low + num], axis=0, mode="clip"), out=part)
        np.add(latest, weight[low:high], out=end[low:high])
    result = np.empty_like(end)
    result[front.order] = end
    return result


def node_start(graph: TaskGraph, end: Array) -> Array:
    """Start of each node, exactly the latest end of its predecessors."""
    start = end[graph.before[0]]
    for before in graph.before[1:]:
        np.maximum(start, end[before], out=start)
    start[0] = 0.0
    return start


def simulate(
    program: Program,
    link: object = None,
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
