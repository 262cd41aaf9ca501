"""What of a step's traffic hides beside computing, by part, and how much more the same kernels would hide.

    hidden   traffic less what the device waits for it, over the whole step
    slack    kernels that traffic of the part may run beside, less the traffic that does

Both are of the device with the most work, of one layout; what hides in modules of multi-token prediction is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from lockstep.hardware import Cluster
from lockstep.kernels.clock import Clock
from lockstep.kernels.shard import Shard
from lockstep.layout import Job, Layout
from lockstep.parallel.piece import Hiding, Piece
from lockstep.parallel.pipeline import Placement
from lockstep.step.network import Network
from lockstep.step.passes import StepPasses, step_passes
from lockstep.step.pieces import body_layers
from lockstep.step.stage import stage_pieces
from lockstep.step.step import Composition, cells, compose

Seconds: TypeAlias = tuple[float, float, float]
NOTHING: Seconds = (0.0, 0.0, 0.0)


def hiding(job: Job, cluster: Cluster, layout: Layout) -> dict[str, Hiding]:
    """What hides, by part of a step; parts without traffic are left out."""
    grid = layout.grid()
    parts = compose(job, cluster, grid)
    passes, microbatches = step_passes(job, cluster, layout, parts), int(parts.microbatches)
    found: dict[str, Hiding] = {}
    inside = [_by_part(side) for side in passes.inside_of(parts.busiest)]
    for side in (*inside, *_modules(job, cluster, layout, parts, passes)):
        for part, (_, hidden_s, slack_s) in side.items():
            here = Hiding(microbatches * hidden_s, microbatches * slack_s)
            found[f"{part}_comm"] = found.get(f"{part}_comm", Hiding()) + here
    if parts.hides_ep and not parts.devices and "ep_comm" in found:
        count, times = float(np.asarray(cells(grid, parts))), passes.times
        computing_s = float(np.asarray(times.forward_s + times.backward_s - times.comm_s))
        most_s = computing_s / (1.0 - parts.ep_device_frac)
        hidden_s = float(np.asarray(times.forward_s + times.backward_s - times.cell_s))
        found["ep_comm"] += Hiding(count * hidden_s, count * max(0.0, most_s - float(np.asarray(times.comm_s))))
    if float(np.asarray(grid.data_ranks)) * parts.copies > 1:
        found["dp_comm"] = parts.around.hiding(microbatches, parts.waits)
    if parts.around.host.moves:
        found["host_comm"] = parts.around.host_hiding(microbatches, parts.waits)
    return found


def _by_part(pieces: Sequence[Piece]) -> dict[str, Seconds]:
    """Seconds that are exposed, hidden, and left for more, by part."""
    found: dict[str, Seconds] = {}
    for one in pieces:
        before = found.get(one.part, NOTHING)
        here = float(one.exposed_s), float(one.hidden_s), float(one.slack_s)
        found[one.part] = before[0] + here[0], before[1] + here[1], before[2] + here[2]
    return found


def _modules(
    job: Job, cluster: Cluster, layout: Layout, parts: Composition, passes: StepPasses
) -> list[dict[str, Seconds]]:
    """The same of prediction modules on the device with the most work, beyond its layers."""
    model, grid = job.transformer, layout.grid()
    if model is None or not model.mtp_layers:
        return []
    shard = Shard(model, grid, job.recipe, Clock.of(cluster.device, job.recipe))
    network, alone = Network(cluster, grid), Counter({job.kinds[-1]: model.mtp_layers})
    if parts.devices:
        here = grid.route[grid.mtp_stage][0] == parts.busiest
        return [_by_part(side) for side in stage_pieces(shard, network, alone)] if here else []
    if parts.stages > 1 and parts.copies == 1 and np.all(parts.first.total_s >= parts.last.total_s):
        return []
    held = body_layers(job, grid)[0 if grid.placement is Placement.VEE else -1]
    sides = zip(stage_pieces(shard, network, held + alone), passes.inside_of(0), strict=True)
    return [_beyond(_by_part(last), _by_part(body), 1.0 / parts.copies) for last, body in sides]


def _beyond(last: dict[str, Seconds], body: dict[str, Seconds], share: float) -> dict[str, Seconds]:
    """What the last stage has more than the heaviest layers, as its seconds are priced: all traffic less exposed."""
    found = {}
    for part, (exposed_s, hidden_s, slack_s) in last.items():
        less = body.get(part, NOTHING)
        more_s = max(0.0, exposed_s - less[0])
        all_s = max(0.0, exposed_s + hidden_s - less[0] - less[1])
        found[part] = share * more_s, share * (all_s - more_s), share * max(0.0, slack_s - less[2])
    return found
