"""`Saving`: how a job saves: whole checkpoints, and lighter ones between two of them.

A local checkpoint (memory, disk, a copy at a peer) serves a share of the failures, a delta all of them, with the deltas
since the last whole checkpoint replayed. How many lighter ones come between is the cycle of least expected time
(`best_cycle`) where nobody says it. The verbs about checkpoints and about whole runs save by the same `Saving`.

`write_time_s`: how long a checkpoint takes to write: shards of all ranks, limited by each rank and by the storage they
share.

    rate = min(ranks * rank_Bps, storage_Bps),   time = latency + size_B / rate
size_B: the whole checkpoint, each byte written once; ranks: how many write at the same time. Beyond
storage_Bps / rank_Bps ranks, more ranks do not help.

For copies of the state in the memory of other nodes: what a copy costs and which failures it survives.

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
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Array
from lockstep.simulate.failures.failures import Failures
from lockstep.simulate.failures.intervals import best_cycle
from lockstep.simulate.failures.pattern import Pattern, floats, incremental, single, two_level


def write_time_s(
    size_B: ArrayLike, ranks: ArrayLike = 1, *, rank_Bps: ArrayLike = math.inf, storage_Bps: ArrayLike = math.inf,
    latency_s: ArrayLike = 0.0,
) -> Array:  # fmt: skip
    """Seconds to write (or to read back) a sharded checkpoint. Broadcasts."""
    size, number, rank, storage, latency = floats(size_B, ranks, rank_Bps, storage_Bps, latency_s)
    return np.asarray(latency + size / np.minimum(number * rank, storage))


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What is saved and how long it takes; times in seconds."""

    write_s: float
    """One whole checkpoint."""
    restart_s: float = 0.0
    """From a whole checkpoint."""
    detection_s: float = 0.0
    hidden_frac: float = 0.0
    """Share of every write that hides behind work."""
    local_write_s: float | None = None
    """Seconds of a local checkpoint; None if there are none."""
    local_restart_s: float = 0.0
    local_frac: float = 1.0
    """Share of the failures that a local checkpoint serves."""
    delta_write_s: float | None = None
    """Seconds of a delta; None if there are none."""
    every: int | None = None
    """Checkpoints in a cycle, the last of them whole; None selects the best number."""
    silent_frac: float = 0.0
    """Share of the failures that are silent corruption."""
    silent_delay_s: float = 0.0

    def __post_init__(self) -> None:
        if self.local_write_s is not None and self.delta_write_s is not None:
            raise BadInput("local checkpoints and deltas cannot be combined; give one", "delta_write")
        if not self.is_cycle and (self.every or 1) > 1:
            raise BadInput("needs --local-write, --delta-write or --copies for the checkpoints in between", "every")

    @property
    def is_cycle(self) -> bool:
        """Whether lighter checkpoints come between the whole ones."""
        return self.local_write_s is not None or self.delta_write_s is not None

    def cycle(self, every: int) -> Pattern:
        """The pattern with `every` - 1 lighter checkpoints before each whole one."""
        return replace(self._clean(every), silent_frac=self.silent_frac, silent_delay_s=self.silent_delay_s)

    def pattern(self, mtbf_s: float) -> Pattern:
        """The cycle given, else the best for failures every `mtbf_s`; whole checkpoints alone where nothing fails."""
        if math.isinf(mtbf_s) or not self.is_cycle:
            return replace(self, local_write_s=None, delta_write_s=None, every=None).cycle(1)
        return self.cycle(self.every) if self.every is not None else _best(self, mtbf_s)

    def _clean(self, every: int) -> Pattern:
        """The same without corruption."""
        if self.local_write_s is not None:
            return two_level(
                self.local_write_s, self.write_s, every, self.local_frac, local_restart_s=self.local_restart_s,
                remote_restart_s=self.restart_s, detection_s=self.detection_s, hidden_frac=self.hidden_frac,
            )  # fmt: skip
        if self.delta_write_s is not None:
            return incremental(
                self.write_s, self.delta_write_s, every, restart_s=self.restart_s, detection_s=self.detection_s,
                hidden_frac=self.hidden_frac,
            )  # fmt: skip
        return single(self.write_s, self.restart_s, self.detection_s, self.hidden_frac)


@lru_cache(maxsize=256)
def _best(saving: Saving, mtbf_s: float) -> Pattern:
    return best_cycle(saving.cycle, mtbf_s).pattern


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
