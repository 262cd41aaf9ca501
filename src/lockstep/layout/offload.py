"""What of a rank's training states lives in host memory.

    optimizer    optimizer states and gradients, and the host updates            (ZeRO-Offload)
    parameters   these, and a rank's shard of the parameters, at zero 3          (ZeRO-Infinity, FSDP's CPU offload)

Gradients leave the device after every micro-batch where a rank owns what it sends: from zero 2 on, or with nothing to
reduce. Below it they add up on the device, and the rank's part goes down once per step, as DeepSpeed does at stage 1.

Sources: ZeRO-Offload (arXiv 2101.06840) section 4; ZeRO-Infinity (arXiv 2104.07857) section 5; DeepSpeed 0.16,
deepspeed/runtime/zero/stage_1_and_2.py: reduce_ready_partitions_and_remove_grads, copy_grads_in_partition.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lockstep.hardware import Cluster
from lockstep.layout.layout import KEEP, OFFLOAD_PARAMETERS, LayoutGrid

HOST_USABLE_FRAC = 0.9
"""Share of host memory that states may fill; the system, data loading and staging buffers take the rest: assumed."""


def gradients_leave(grid: LayoutGrid) -> Any:
    """Where gradients go to host memory after every micro-batch."""
    if not np.any(grid.offload != KEEP):
        return np.zeros((), dtype=bool)
    alone = grid.data_ranks * grid.copies == 1
    return (grid.offload != KEEP) & ((grid.zero >= 2) | alone)


def host_states_B(grid: LayoutGrid, parameters_B: Any, gradients_B: Any, optimizer_B: Any) -> Any:
    """Bytes that one rank keeps in host memory of its own part of parameters, gradients and optimizer states."""
    kept_B = np.where(grid.offload == OFFLOAD_PARAMETERS, parameters_B, 0.0)
    return np.where(grid.offload == KEEP, 0.0, kept_B + gradients_B + optimizer_B)


def host_capacity_B(cluster: Cluster) -> float:
    """Bytes of host memory that each device of `cluster` may fill when all do; infinite where it is not known."""
    host = cluster.host
    if host is None or host.memory_B is None:
        return float("inf")
    return HOST_USABLE_FRAC * host.memory_B / cluster.devices_per_host
