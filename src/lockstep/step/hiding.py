"""What of a step's traffic hides beside computing, by part, and how much more the same kernels would hide.

    hidden   traffic less what the device waits for it, over the whole step
    slack    kernels that traffic of the part may run beside, less the traffic that does

Both are of the device with the most work, of one layout; what hides in modules of multi-token prediction is left out.
"""

from __future__ import annotations

import numpy as np

from lockstep.hardware import Cluster
from lockstep.layout import Job, Layout
from lockstep.parallel.piece import Hiding
from lockstep.step.passes import step_passes
from lockstep.step.step import cells, compose


def hiding(job: Job, cluster: Cluster, layout: Layout) -> dict[str, Hiding]:
    """What hides, by part of a step; parts without traffic are left out."""
    grid = layout.grid()
    parts = compose(job, cluster, grid)
    passes, microbatches = step_passes(job, cluster, layout, parts), int(parts.microbatches)
    found: dict[str, Hiding] = {}
    for one in sum(passes.inside_of(parts.busiest), ()):
        here = Hiding(microbatches * float(one.hidden_s), microbatches * float(one.slack_s))
        found[f"{one.part}_comm"] = found.get(f"{one.part}_comm", Hiding()) + here
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
