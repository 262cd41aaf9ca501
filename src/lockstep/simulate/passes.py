"""The longest-path pass over a task graph: when does every node start and end.

    start[v] = max over predecessors u of end[u]        end[v] = start[v] + duration[v]

Two ways, bit for bit the same: `longest_path` walks over Python lists (thin graphs, one draw), `wavefront_end` takes
whole levels at a time in numpy, for any number of draws at once (wide graphs, Monte Carlo).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.program import TaskGraph, longest_path

Array = npt.NDArray[Any]
# Mean nodes x draws per level above which numpy levels beat Python lists (measured by benchmarks/engine.py).
WIDE = 48


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
