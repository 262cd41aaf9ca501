"""Exact split of uneven layers into consecutive stages: the slowest stage is as fast as it can be.

Dynamic program over (layers so far, stages so far): the best time of the slowest stage is the minimum over the last
cut of the larger of the best before the cut and the sum after it. Stages are contiguous and none is empty. Ties: the
earliest last cut, then the earliest one before it. O(stages x layers^2), exact for any times, also with the embedding
on the first stage and the head on the last.

Source: the contiguous partition of Huang et al. 2019, "GPipe" (arXiv 1811.06965), section 2.1; dynamic program as in
Narayanan et al. 2019, "PipeDream" (arXiv 1806.03377), section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lockstep.errors import BadInput
from lockstep.types.arrays import Floats
from lockstep.types.plain import Json, picked


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


def partition(layer_s: Sequence[float], stages: int, *, first_s: float = 0.0, last_s: float = 0.0) -> Partition:
    """The best contiguous split of layers with times `layer_s` (forward and backward) into `stages`.

    `first_s` and `last_s` are added to the first and the last stage. Raises BadInput for fewer layers than stages.
    """
    num = len(layer_s)
    if not 1 <= stages <= num:
        raise BadInput(f"{num} layers cannot fill {stages} stages; stages must be between 1 and the number of layers")
    ends = np.concatenate(([0.0], np.cumsum(layer_s)))
    # best[n] is the slowest stage when the first n layers fill the stages so far; cut[k][n] where the last one starts.
    best = np.where(np.arange(num + 1) > 0, ends + first_s, np.inf) + (last_s if stages == 1 else 0.0)
    cuts: list[list[int]] = []
    for stage in range(1, stages):
        extra_s = last_s if stage == stages - 1 else 0.0
        best, cut = _add_stage(best, ends, stage, extra_s)
        cuts.append(cut)
    starts = [num]
    for cut in reversed(cuts):
        starts.append(cut[starts[-1]])
    starts = [0, *starts[::-1]]
    sums = [float(ends[b] - ends[a]) for a, b in pairwise(starts)]
    sums[0] += first_s
    sums[-1] += last_s
    return Partition(tuple(starts), tuple(sums))


def _add_stage(best: Floats, ends: Floats, stage: int, extra_s: float) -> tuple[Floats, list[int]]:
    """One more stage: the best slowest stage for every number of layers, and where that stage starts."""
    num = len(ends) - 1
    after, cut = np.full(num + 1, np.inf), [0] * (num + 1)
    for n in range(stage + 1, num + 1):
        slowest = np.maximum(best[stage:n], ends[n] - ends[stage:n] + extra_s)
        where = int(np.argmin(slowest))
        after[n], cut[n] = slowest[where], stage + where
    return after, cut
