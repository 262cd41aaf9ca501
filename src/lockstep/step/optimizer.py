"""Seconds of the optimizer step: memory traffic over the parameters that a rank updates, or the host link's.

Reads gradient, master and moments, writes master, moments and the half-precision parameter, and reads the gradients
once more for the global norm. Muon also orthogonalises every matrix: 5 Newton-Schulz steps of products m x n by n x m,
m x m by m x m and m x m by m x n, at most 30 m FLOPs per element with m <= hidden, at the rate of large products and
shared by the ranks that share the states. With offload, gradients go to host memory and parameters come back over the
host link; the host's own arithmetic hides behind that traffic (ZeRO-Offload, arXiv 2101.06840, section 4.2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lockstep.hardware import link
from lockstep.layout import KEEP, LayoutGrid, Recipe
from lockstep.step.kernels import Clock
from lockstep.workload import RankParameters

HOST_LINK = "pcie4"
"""Host link assumed for offloading."""


def optimizer_s(clock: Clock, grid: LayoutGrid, recipe: Recipe, parameters: RankParameters, hidden: int) -> Any:
    """Seconds of one update on a rank that holds `parameters` of a model of width `hidden`, sharded from zero 1 on."""
    shard = np.where(grid.zero >= 1, grid.shard_ranks, 1)
    expert_shard = np.where(grid.zero >= 1, grid.expert_shard_ranks, 1)
    matrix = parameters.matrix_elems / shard + parameters.expert_elems / expert_shard
    other = parameters.other_elems / shard
    states = recipe.states
    moved_B = sum(
        elems * (2.0 * state_B + 2.0 * recipe.gradient_B + recipe.parameter_B)
        for elems, state_B in ((matrix, states.matrix_B), (other, states.other_B))
    )
    products = matrix * states.matmul_flops_factor * hidden
    rate = clock.matmul_peak_flops * clock.device.efficiency.matmul_max_frac
    update_s = clock.stream(moved_B).stream_s + products / rate
    if not np.any(grid.offload != KEEP):
        return update_s
    host_s = (matrix + other) * (recipe.gradient_B + recipe.parameter_B) / link(HOST_LINK).rate_Bps
    return np.where(grid.offload == KEEP, update_s, host_s)
