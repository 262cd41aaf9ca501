"""`best_split`: the layers of every pipeline stage that make the slowest one as fast as it can be and fit in memory.

The seconds of a layer of each kind, of the embedding, the head and the modules of multi-token prediction are those of
the step. With one chunk per stage the split is exact for any layers (`pipeline/partition.py`). With several it is exact
for layers that are alike, first for the slowest device, then for its slowest chunk; of layers of several kinds, the
slowest chunk is as fast as it can be. Traffic around the passes, which depends on all that a stage holds, is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from lockstep.base.errors import Infeasible
from lockstep.describe.hardware import Cluster
from lockstep.price.kernels.clock import Clock
from lockstep.price.layout import Job, Layout, stage_memory
from lockstep.price.step.network import Network
from lockstep.price.step.pieces import placed_pieces
from lockstep.simulate.parallel.pipeline import partition, spread


def best_split(job: Job, cluster: Cluster, layout: Layout) -> Layout:
    """`layout` with the best `stages`; where no split fits in memory, with the best of those that do not."""
    split = _Split(job, cluster, layout)
    found = split.find(fitting=False)
    if not split.fits(found):
        with suppress(Infeasible):
            found = split.find(fitting=True)
    return replace(layout, stages=found)


class _Split:
    """The pieces that one layout's stages are made of."""

    def __init__(self, job: Job, cluster: Cluster, layout: Layout) -> None:
        self.job, self.cluster = job, cluster
        self.stages, self.chunks = layout.pp, layout.pp * layout.vpp
        # Where the layers are does not matter to the seconds of each.
        self.layout = replace(layout, stages=(job.layers,) + (0,) * (self.chunks - 1))
        grid = self.layout.grid()
        kinds, more = placed_pieces(job, grid, Clock.of(cluster.device, job.recipe), Network(cluster, grid))
        self.route = grid.route
        self.layer_s = [float(np.asarray(kinds[kind].total_s)) for kind in job.kinds]
        self.extra_s = {where: float(np.asarray(one.total_s)) for where, one in more.items()}

    def find(self, fitting: bool) -> tuple[int, ...]:
        """The best layers of every chunk, of those that fit in memory if asked. Raises BadInput and Infeasible."""
        if self.chunks > self.stages and len(set(self.layer_s)) == 1:
            beside_s = [
                [self.extra_s.get((s, c), 0.0) for c in range(self.chunks // self.stages)] for s in range(self.stages)
            ]
            found = spread(self.layer_s[0], len(self.layer_s), beside_s, self._holds if fitting else lambda *_: True)
            return tuple(found[device][chunk] for device, chunk in self.route)
        extra_s = [self.extra_s.get(where, 0.0) for where in self.route]
        earliest = self._earliest() if fitting and self.chunks == self.stages else lambda stage, end: 0
        return partition(self.layer_s, self.chunks, extra_s=extra_s, earliest=earliest).sizes

    def fits(self, split: tuple[int, ...]) -> bool:
        """Whether every stage fits."""
        return all(self._fits(split, stage) for stage in range(self.stages))

    def _fits(self, split: Sequence[int], stage: int) -> bool:
        grid = replace(self.layout, stages=tuple(split)).grid()
        return bool(stage_memory(self.job, self.cluster, grid, stage).fits)

    def _holds(self, device: int, counts: Sequence[int]) -> bool:
        """Whether a device can hold `counts` layers in its chunks, where all layers are alike."""
        rest = len(self.layer_s) - sum(counts)
        split = [counts[chunk] if where == device else 0 for where, chunk in self.route]
        split[next(at for at, (where, _) in enumerate(self.route) if where != device)] += rest
        return self._fits(split, device)

    def _earliest(self) -> Callable[[int, int], int]:
        """The first layer of a stage that ends before layer `end` and fits in memory, of one chunk per stage."""
        known: dict[tuple[int, int], int] = {}

        def earliest(stage: int, end: int) -> int:
            start = known.get((stage, end - 1), 0)
            while start < end and not self._fits(self._around(stage, start, end), stage):
                start += 1
            known[stage, end] = start
            return start

        return earliest

    def _around(self, stage: int, start: int, end: int) -> list[int]:
        """A split in which `stage` holds the layers from `start` to before `end`."""
        split = [0] * self.stages
        split[0], split[-1] = start, len(self.layer_s) - end
        split[stage] = end - start + (0 if 0 < stage < self.stages - 1 else split[stage])
        return split
