"""What of a step's traffic hides beside computing, by part, and how much more the same kernels would hide.

    hidden   traffic less what the device waits for it, over the whole step
    slack    kernels that traffic of the part may run beside, less the traffic that does

Both are of the device with the most work; what hides in modules of multi-token prediction is left out. The formulas
broadcast over layouts whose stages are placed alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number, Truth
from lockstep.describe.hardware import Cluster
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.shard import Shard
from lockstep.price.layout import Job, Layout, LayoutGrid, grids_of
from lockstep.price.step.network import Network
from lockstep.price.step.passes import traffic_inside
from lockstep.price.step.pieces import body_layers
from lockstep.price.step.stage import stage_pieces
from lockstep.price.step.step import Composition, cells, compose
from lockstep.simulate.parallel.piece import Hiding, Piece, total_s
from lockstep.simulate.parallel.pipeline import Placement


@dataclass(frozen=True, slots=True)
class _Seconds:
    """Of the traffic of one part in a pass: what is exposed, what hides, what the same kernels would hide besides."""

    exposed: Number = 0.0
    hidden: Number = 0.0
    slack: Number = 0.0

    @property
    def moves(self) -> Truth:
        """Where there is any traffic."""
        return np.greater(self.exposed + self.hidden, 0.0)

    def where(self, mask: Truth, other: _Seconds) -> _Seconds:
        """These seconds where `mask` holds, the other's elsewhere."""
        return _Seconds(
            np.where(mask, self.exposed, other.exposed),
            np.where(mask, self.hidden, other.hidden),
            np.where(mask, self.slack, other.slack),
        )


_Parts = dict[str, _Seconds]


def hiding(job: Job, cluster: Cluster, layout: Layout) -> dict[str, Hiding]:
    """What hides, by part of a step; parts without traffic are left out."""
    return hidings(job, cluster, [layout])[0]


def hidings(job: Job, cluster: Cluster, layouts: Sequence[Layout]) -> list[dict[str, Hiding]]:
    """The same of several layouts, in order; those in one grid share one pass."""
    found: list[dict[str, Hiding]] = [{} for _ in layouts]
    for places, grid in grids_of(layouts):
        for place, one in zip(places, grid_hidings(job, cluster, grid, len(places)), strict=True):
            found[place] = one
    return found


def grid_hidings(job: Job, cluster: Cluster, grid: LayoutGrid, count: int) -> list[dict[str, Hiding]]:
    """The same of a grid with one axis of `count` layouts, or of one layout with as many batches."""
    found: list[dict[str, Hiding]] = [{} for _ in range(count)]
    for part, (moves, one) in _of_grid(job, cluster, grid).items():
        columns = (np.broadcast_to(value, (count,)).tolist() for value in (moves, one.hidden_s, one.slack_s))
        for into, here, hidden_s, slack_s in zip(found, *columns, strict=True):
            if here:
                into[part] = Hiding(hidden_s, slack_s)
    return found


def _of_grid(job: Job, cluster: Cluster, grid: LayoutGrid) -> dict[str, tuple[Truth, Hiding]]:
    """By part, where it has traffic, and what of it hides."""
    parts = compose(job, cluster, grid)
    microbatches, inside = parts.microbatches, _inside(job, cluster, grid, parts)
    found: dict[str, tuple[Truth, Hiding]] = {}
    for side in (*inside, *_modules(job, cluster, grid, parts, inside)):
        for part, one in side.items():
            moves, before = found.get(f"{part}_comm", (np.False_, Hiding()))
            here = Hiding(microbatches * one.hidden, microbatches * one.slack)
            found[f"{part}_comm"] = moves | one.moves, before + here
    if parts.hides_ep and not parts.devices and "ep_comm" in found:
        moves, before = found["ep_comm"]
        found["ep_comm"] = moves, before + _in_cells(grid, parts)
    if np.any(grid.data_ranks * parts.copies > 1):
        found["dp_comm"] = grid.data_ranks * parts.copies > 1, parts.around.hiding(microbatches, parts.waits)
    if parts.around.host.moves:
        found["host_comm"] = parts.around.host.moving, parts.around.host_hiding(microbatches, parts.waits)
    return found


def _in_cells(grid: LayoutGrid, parts: Composition) -> Hiding:
    """What of the experts' exchange cells hide."""
    count, times = cells(grid, parts), parts.times()
    most_s = (times.forward_s + times.backward_s - times.comm_s) / (1.0 - parts.ep_device_frac)
    hidden_s = times.forward_s + times.backward_s - times.cell_s
    return Hiding(count * hidden_s, count * np.maximum(0.0, most_s - times.comm_s))


def _inside(job: Job, cluster: Cluster, grid: LayoutGrid, parts: Composition) -> tuple[_Parts, _Parts]:
    """The traffic of the layers in a forward and a backward pass, of the stage or the device with the most work."""
    several = traffic_inside(job, cluster, grid, parts)
    if parts.devices:
        several = several[parts.busiest : parts.busiest + 1]
    found: tuple[_Parts, _Parts] = ({}, {})
    for pair, where in several:
        for known, side in zip(found, pair, strict=True):
            for part, one in _by_part(side).items():
                known[part] = one.where(where, known.get(part, _Seconds()))
    return found


def _by_part(pieces: Sequence[Piece]) -> _Parts:
    """Seconds of pieces by part; kernels beside which nothing moves would hide nothing of it."""
    found: _Parts = {}
    for one in pieces:
        before = found.get(one.part, _Seconds())
        slack_s = np.where(np.greater(total_s(one.flows), 0.0), one.slack_s, 0.0)
        found[one.part] = _Seconds(before.exposed + one.exposed_s, before.hidden + one.hidden_s, before.slack + slack_s)
    return found


def _modules(
    job: Job, cluster: Cluster, grid: LayoutGrid, parts: Composition, inside: tuple[_Parts, _Parts]
) -> list[_Parts]:
    """The same of prediction modules on the device with the most work, beyond its layers."""
    model = job.transformer
    if model is None or not model.mtp_layers:
        return []
    shard = Shard(model, grid, job.recipe, Clock.of(cluster.device, job.recipe))
    network, alone = Network(cluster, grid), Counter({job.kinds[-1]: model.mtp_layers})
    if parts.devices:
        here = grid.route[grid.mtp_stage][0] == parts.busiest
        return [_by_part(side) for side in stage_pieces(shard, network, alone)] if here else []
    last: Truth = np.True_
    if parts.stages > 1 and parts.copies == 1:
        last = np.less(parts.first.total_s, parts.last.total_s)
    if not np.any(last):
        return []
    held = body_layers(job, grid)[0 if grid.placement is Placement.VEE else -1]
    sides = zip(stage_pieces(shard, network, held + alone), inside, strict=True)
    return [_beyond(_by_part(one), body, np.where(last, 1.0 / parts.copies, 0.0)) for one, body in sides]


def _beyond(last: _Parts, body: _Parts, share: Number) -> _Parts:
    """What the last stage has more than the heaviest layers, as its seconds are priced: all traffic less exposed."""
    found = {}
    for part, one in last.items():
        less = body.get(part, _Seconds())
        more_s = np.maximum(0.0, one.exposed - less.exposed)
        all_s = np.maximum(0.0, one.exposed + one.hidden - less.exposed - less.hidden)
        found[part] = _Seconds(
            share * more_s, share * (all_s - more_s), share * np.maximum(0.0, one.slack - less.slack)
        )
    return found
