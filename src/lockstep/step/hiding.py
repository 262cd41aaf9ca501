"""What of a step's traffic hides beside computing, by part, and how much more the same kernels would hide.

    hidden   traffic less what the device waits for it, over the whole step
    slack    kernels that traffic of the part may run beside, less the traffic that does

Both are of the device with the most work, and of one layout.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lockstep.hardware import Cluster
from lockstep.layout import Job, Layout
from lockstep.parallel.data.around import Around
from lockstep.step.passes import StepPasses, step_passes
from lockstep.step.step import cells, compose


@dataclass(frozen=True, slots=True)
class Hiding:
    """Seconds of a step."""

    hidden_s: float = 0.0
    slack_s: float = 0.0

    def __add__(self, other: Hiding) -> Hiding:
        return Hiding(self.hidden_s + other.hidden_s, self.slack_s + other.slack_s)


def hiding(job: Job, cluster: Cluster, layout: Layout) -> dict[str, Hiding]:
    """What hides, by part of a step; parts without traffic are left out."""
    grid = layout.grid()
    parts = compose(job, cluster, grid)
    passes, microbatches = step_passes(job, cluster, layout, parts), int(parts.microbatches)
    found: dict[str, Hiding] = {}
    for one in (*passes.inside[0], *passes.inside[1]):
        here = Hiding(microbatches * float(one.hidden_s), microbatches * float(one.slack_s))
        found[f"{one.part}_comm"] = found.get(f"{one.part}_comm", Hiding()) + here
    if parts.hides_ep and "ep_comm" in found:
        count, times = float(np.asarray(cells(grid, parts))), passes.times
        computing_s = float(np.asarray(times.forward_s + times.backward_s - times.comm_s))
        most_s = computing_s / (1.0 - parts.ep_device_frac)
        hidden_s = float(np.asarray(times.forward_s + times.backward_s - times.cell_s))
        found["ep_comm"] += Hiding(count * hidden_s, count * max(0.0, most_s - float(np.asarray(times.comm_s))))
    if float(np.asarray(grid.data_ranks)) * parts.copies > 1:
        found["dp_comm"] = _data(passes, microbatches)
    if parts.host.moves:
        found["host_comm"] = _host(passes, microbatches)
    return found


def _data(passes: StepPasses, microbatches: int) -> Hiding:
    """Of data-parallel traffic: all of it, less what is exposed."""
    data, waits = passes.data, passes.parts.waits
    if not data.overlap:
        return Hiding()
    gather_s, scatter_s, once_s = data.gather.seconds, data.scatter.seconds, data.once.seconds
    each_s = {3: 2.0 * gather_s + scatter_s, 2: scatter_s}.get(data.zero, 0.0)
    all_s = microbatches * each_s + once_s + (gather_s if data.zero in (1, 2) else 0.0)
    exposed_s = microbatches * (waits.forward_s + waits.backward_s) + waits.once_s
    return Hiding(max(0.0, all_s - float(np.asarray(exposed_s))), _slack_s(data, microbatches))


def _slack_s(data: Around, microbatches: int) -> float:
    """Kernels of the passes that have data-parallel traffic beside them, less that traffic."""
    forward = {3: microbatches, 2: 1, 1: 1}.get(data.zero, 0)
    backward = microbatches if data.zero >= 2 else 1
    larger = 1.0 - 1.0 / data.layers
    ways = (("forward", forward, data.gather.seconds), ("backward", backward, _backward_s(data)))
    return sum(times * max(0.0, larger * (float(data.kernels.beside(way)[0]) - each_s)) for way, times, each_s in ways)


def _backward_s(data: Around) -> float:
    """Traffic of a backward pass."""
    if data.zero <= 1:
        return float(data.once.seconds)
    return float(data.scatter.seconds + (data.gather.seconds if data.zero == 3 else 0.0))


def _host(passes: StepPasses, microbatches: int) -> Hiding:
    """Of transfers with the host that come with every pass; one way goes beside the other."""
    host, waits = passes.parts.host, passes.parts.host_waits
    forward_s = float(np.asarray(host.up_forward_s))
    backward_s = float(np.asarray(host.up_backward_s + host.down_backward_s))
    exposed_s = float(np.asarray(waits[0] + waits[1]))
    kernels = passes.parts.beside
    slack_s = sum(
        max(0.0, float(np.asarray(kernels_s)) - moved_s)
        for kernels_s, moved_s in ((kernels.forward_s, forward_s), (kernels.backward_s, backward_s))
        if moved_s
    )
    return Hiding(microbatches * max(0.0, forward_s + backward_s - exposed_s), microbatches * slack_s)
