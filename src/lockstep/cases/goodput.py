"""The share of wall time that a run spends on work, as the campaign model expects it of a cluster.

    goodput = 1 / (1 + overhead),    overhead: expected time over work, minus 1, at the best checkpoint interval
Failures are those that the catalog knows of the cluster; detection, restart and checkpoint writes those of
`campaign.Operation`.
"""

from __future__ import annotations

from lockstep.campaigns import Operation
from lockstep.failures import optimum
from lockstep.planner import Estimate


def goodput_frac(found: Estimate) -> float:
    """Goodput of a long run in this layout; 1 where nothing is known about failures."""
    device_mtbf_s, storage_Bps = found.cluster.mtbf_s, found.cluster.storage_write_Bps
    if device_mtbf_s is None:
        return 1.0
    operation = Operation(device_mtbf_s=device_mtbf_s, storage_Bps=storage_Bps)
    best = optimum(operation.pattern(found.job), operation.mtbf_s(found.job.devices))
    return 1.0 / (1.0 + best.overhead_frac)
