"""Exact split of uneven layers into consecutive stages: the slowest stage is as fast as it can be.

Dynamic program over (layers so far, stages so far): the best time of the slowest stage is the minimum over the last
cut of the larger of the best before the cut and the sum after it. Stages are contiguous, and only those that do
something besides layers (the embedding, the head) may have none. Ties: the earliest last cut, then the earliest one
before it. O(stages x layers^2), exact for any times.

`spread`: the same for equal layers in several chunks per device, where the devices' sums count.

Source: the contiguous partition of Huang et al. 2019, "GPipe" (arXiv 1811.06965), section 2.1; dynamic program as in
Narayanan et al. 2019, "PipeDream" (arXiv 1806.03377), section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Floats
from lockstep.base.types.plain import Json, picked


@dataclass(frozen=True, slots=True)
class Partition:
    """Layers [starts[s], starts[s + 1]) belong to stage s."""

    starts: tuple[int, ...]
    stage_s: tuple[float, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of layers of each stage."""
        return tuple(b - a for a, b in pairwise(self.starts))

    @property
    def slowest_s(self) -> float:
        """Time of the slowest stage."""
        return max(self.stage_s)

    @property
    def imbalance_frac(self) -> float:
        """How much slower the slowest stage is than the mean."""
        mean_s = sum(self.stage_s) / len(self.stage_s)
        return self.slowest_s / mean_s - 1.0 if mean_s > 0 else 0.0

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "sizes stage_s slowest_s imbalance_frac")


def partition(
    layer_s: Sequence[float],
    stages: int,
    *,
    extra_s: Sequence[float] = (),
    earliest: Callable[[int, int], int] = lambda stage, end: 0,
) -> Partition:
    """The best contiguous split of layers with times `layer_s` (forward and backward) into `stages`.

    `extra_s` is what each stage does besides, `earliest(stage, end)` the first layer of a stage that ends before layer
    `end` and still fits in memory. Raises BadInput for too few layers, and Infeasible where no split fits.
    """
    num, extra_s = len(layer_s), extra_s or [0.0] * stages
    if not 1 <= stages <= num + sum(one_s > 0 for one_s in extra_s):
        raise BadInput(f"{num} layers cannot fill {stages} stages; stages must be between 1 and the number of layers")
    ends = np.concatenate(([0.0], np.cumsum(layer_s)))
    # best[n] is the slowest stage when the first n layers fill the stages so far; cut[k][n] where the last one starts.
    best = np.where(np.arange(num + 1) > 0, np.inf, 0.0)
    cuts: list[list[int]] = []
    for stage in range(stages):
        best, cut = _add_stage(best, ends, extra_s[stage], [earliest(stage, end) for end in range(num + 1)])
        cuts.append(cut)
    if not np.isfinite(best[num]):
        raise Infeasible(f"no split of {num} layers into {stages} stages fits in memory")
    starts = [num]
    for cut in reversed(cuts):
        starts.append(cut[starts[-1]])
    starts.reverse()
    sums = [float(ends[b] - ends[a]) + one_s for (a, b), one_s in zip(pairwise(starts), extra_s, strict=True)]
    return Partition(tuple(starts), tuple(sums))


def _add_stage(best: Floats, ends: Floats, extra_s: float, earliest: Sequence[int]) -> tuple[Floats, list[int]]:
    """One more stage: the best slowest stage for every number of layers, and where that stage starts."""
    num = len(ends) - 1
    after, cut = np.full(num + 1, np.inf), [0] * (num + 1)
    for n in range(num + 1):
        low, high = earliest[n], n + (extra_s > 0)
        if low < high:
            slowest = np.maximum(best[low:high], ends[n] - ends[low:high] + extra_s)
            where = int(np.argmin(slowest))
            after[n], cut[n] = slowest[where], low + where
    return after, cut


def spread(
    layer_s: float,
    layers: int,
    extra_s: Sequence[Sequence[float]],
    fits: Callable[[int, Sequence[int]], bool] = lambda device, counts: True,
) -> list[list[int]]:
    """Layers of every chunk of every device, for layers of `layer_s` each: the slowest device, then its slowest chunk.

    `extra_s[device][chunk]` is what chunks do besides; one that does nothing else holds a layer. `fits` says whether a
    device can hold `counts`. Each layer goes to the device that then has least to do, the last of equals, which is the
    best for equal jobs. Raises Infeasible where they do not fit.
    """
    found = [[int(one_s <= 0) for one_s in chunks] for chunks in extra_s]
    if sum(map(sum, found)) > layers:
        raise BadInput(f"{layers} layers cannot fill {sum(map(len, found))} chunks")
    for _ in range(layers - sum(map(sum, found))):
        ways = []
        for device, (counts, chunks) in enumerate(zip(found, extra_s, strict=True)):
            loads = [count * layer_s + one_s for count, one_s in zip(counts, chunks, strict=True)]
            chunk = min(range(len(loads)), key=lambda at: loads[at])
            more = [count + (at == chunk) for at, count in enumerate(counts)]
            if fits(device, more):
                ways.append((sum(loads), -device, more))
        if not ways:
            raise Infeasible(f"no split of {layers} layers over {len(found)} devices fits in memory")
        _, device, more = min(ways)
        found[-device] = more
    return found
