"""Copies of the state in the memory of other nodes: what a copy costs and which failures it survives.

    time      size_B * (copies - 1) / (nodes * bandwidth_Bps)        each node sends its shard to copies - 1 peers
    survival  P = sum over i of (-1)^i C(g, i) C(n - i c, k - i c) / C(n, k),    g = n / c groups
n nodes in g groups of c that hold each other's shards, k of them lost at random; one group lost wholly loses the state.
Fewer losses than copies always survive. A rack loses neighbours, not random nodes: peers must stand in other racks.

Source: Z. Wang et al., "GEMINI: fast failure recovery in distributed training with in-memory checkpoints", SOSP 2023,
section 4 (group placement, and the bound that keeps the first term of this sum).
"""

from __future__ import annotations

import math
from fractions import Fraction

from lockstep.errors import BadInput
from lockstep.failures.failures import Failures


def copy_time_s(size_B: float, nodes: int, copies: int, bandwidth_Bps: float) -> float:
    """Seconds to send every node's shard of `size_B` bytes in all to its peers; `bandwidth_Bps` per node."""
    _check(nodes, copies)
    return size_B * (copies - 1) / (nodes * bandwidth_Bps)


def survival_frac(nodes: int, copies: int, lost: int) -> float:
    """Probability that `lost` random nodes leave at least one copy of every shard. Exact."""
    _check(nodes, copies)
    if not 0 <= lost <= nodes:
        raise BadInput(f"{lost} lost nodes of {nodes}")
    groups = nodes // copies
    ways = sum(
        (-1) ** i * math.comb(groups, i) * math.comb(nodes - i * copies, lost - i * copies)
        for i in range(lost // copies + 1)
    )
    return float(Fraction(ways, math.comb(nodes, lost)))


def recoverable_frac(failures: Failures, nodes: int, copies: int, *, spread: bool = True) -> float:
    """Share of the interruptions after which a copy is left. An event loses neighbouring nodes.

    `spread`: the copies of a shard stand nodes / copies apart, as far as possible; else side by side.
    """
    _check(nodes, copies)
    surviving = _spread_frac if spread else _side_by_side_frac
    kept = math.fsum(
        cause.rate_per_s * surviving(nodes, copies, min(nodes, cause.nodes_lost)) for cause in failures.causes
    )
    return kept / failures.rate_per_s if failures.rate_per_s else 1.0


def _spread_frac(nodes: int, copies: int, lost: int) -> float:
    """1 while a block of `lost` neighbours (around a ring) is too short to reach from the first copy to the last."""
    return float(lost <= nodes // copies * (copies - 1))


def _side_by_side_frac(nodes: int, copies: int, lost: int) -> float:
    """Share of the places of a block of `lost` neighbours (around a ring) that contain no whole group."""
    # A block that starts `ahead` nodes before the next group contains it when it is at least ahead + copies long.
    return sum(lost < min(nodes, ahead + copies) for ahead in range(copies)) / copies


def _check(nodes: int, copies: int) -> None:
    if nodes < copies:
        raise BadInput(f"{copies} copies need as many nodes, but there {'is' if nodes == 1 else 'are'} only {nodes}")
    if copies < 1 or nodes % copies:
        raise BadInput(f"{nodes} nodes do not form whole groups of {copies} copies; try a divisor")
