"""Seconds that a step waits for data-parallel traffic: gradients reduced, sharded parameters gathered.

    zero 0   all-reduce of the gradients, once per step
    zero 1   reduce-scatter of the gradients and all-gather of the updated parameters, once per step
    zero 2   reduce-scatter after every micro-batch (gradients are never whole), all-gather once per step
    zero 3   all-gather before every forward and backward pass, reduce-scatter after every backward pass (FSDP)
    groups   with several shard groups (HSDP at zero 3), all of this inside a group, and an all-reduce of the shards
             across groups once per step, after the last reduce-scatter

Traffic moves layer by layer, so latency is paid once per layer; without overlap, zero 0 to 2 move all of it at once.

Overlap: traffic of a layer runs beside the compute of its neighbours, so of a total C in L layers beside W seconds of
compute max(C/L, C - W (L-1)/L) is exposed: the first or last layer's share has nothing to hide behind. Only kernels
hide traffic, not the tensor, context or expert traffic of a pass, which may need the same links; where this hides on
them too, W is less by as much. What comes once per step hides behind what the last micro-batch's own traffic leaves of
its backward pass.

Traffic with the host (`host.py`) passes before or after this traffic, layer by layer: with links and compute taking
C1, C2, ... and W seconds, the L layers need sum(C)/L + W/L + (L-1)/L max(C1, C2, ..., W), as pieces through machines.

Sources: ZeRO (arXiv 1910.02054) section 7; PyTorch FSDP (arXiv 2304.11277) section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from lockstep.layout import KEEP, LayoutGrid, Recipe
from lockstep.step.communication import Levels, Network, collective
from lockstep.step.host import HostTraffic
from lockstep.workload import RankParameters


@dataclass(frozen=True, slots=True)
class Traffic:
    """Seconds of data-parallel traffic of one stage, as if alone on the network."""

    gather_s: Any
    """One all-gather of all parameters of the stage."""
    scatter_s: Any
    """One reduce-scatter of all gradients of the stage."""
    reduce_s: Any
    """One all-reduce of all gradients of the stage."""
    replicas_s: Any
    """One all-reduce of the shards across shard groups; 0 with a single group."""
    met_gather_s: Any = 0.0
    """Of a gather and of a scatter, seconds on links that tensor and context traffic uses too."""
    met_scatter_s: Any = 0.0


def traffic(network: Network, recipe: Recipe, parameters: RankParameters, layers: int) -> Traffic:
    """The traffic of a stage that holds `parameters` in `layers` layers; experts have fewer replicas than the rest."""
    dense, expert = parameters.matrix_elems + parameters.other_elems, parameters.expert_elems
    shard, experts = network.shard_levels(), network.levels(("cp", "dp"))
    pieces = np.where(network.grid.zero == 3, layers, layers if recipe.overlap_dp else 1)

    def whole(op: str, dense_levels: Levels, bytes_each: float) -> Any:
        seconds = pieces * collective(op, dense_levels, dense * bytes_each / pieces)
        if np.any(expert):
            seconds = seconds + pieces * collective(op, experts, expert * bytes_each / pieces)
        return seconds

    met_s = network.met_s_per_B() * dense
    return Traffic(
        gather_s=whole("all-gather", shard, recipe.parameter_B),
        scatter_s=whole("reduce-scatter", shard, recipe.wire_B),
        reduce_s=whole("all-reduce", network.levels(("cp", "ep", "dp")), recipe.wire_B),
        replicas_s=collective("all-reduce", network.replica_levels(), dense * recipe.wire_B / network.grid.shard_ranks),
        met_gather_s=met_s * recipe.parameter_B,
        met_scatter_s=met_s * recipe.wire_B,
    )


def exposed(total_s: Any, beside_s: Any, layers: Any, overlap: bool) -> Any:
    """Seconds of `total_s` left over beside `beside_s` of compute, when both come in `layers` pieces."""
    if not overlap:
        return total_s
    return np.maximum(total_s / layers, total_s - beside_s * (layers - 1) / layers)


def exposed_lanes(lanes_s: Sequence[Any], beside_s: Any, layers: Any, overlap: bool, busy_s: Any = 0.0) -> Any:
    """As `exposed`, of traffic that passes several links one after another, each layer on one link at a time.

    A link that is busy for `busy_s`, with other traffic too, may be what all wait for.
    """
    total_s: Any = sum(lanes_s)
    if not overlap:
        return total_s
    longest_s = reduce(np.maximum, lanes_s, np.maximum(beside_s, busy_s))
    return total_s / layers + (longest_s - beside_s) * (layers - 1) / layers


@dataclass(frozen=True, slots=True)
class Kernels:
    """Seconds of kernels in a stage's passes, and of them, those that other traffic hides in on the same links."""

    forward_s: Any
    backward_s: Any
    taken_forward_s: Any = 0.0
    """By tensor and context traffic, on some links."""
    taken_backward_s: Any = 0.0
    exchange_forward_s: Any = 0.0
    """By the experts' exchange, on all links."""
    exchange_backward_s: Any = 0.0


@dataclass(frozen=True, slots=True)
class Exposed:
    """Seconds that a stage waits: in every forward and backward pass, and once per step."""

    forward_s: Any
    backward_s: Any
    once_s: Any
    host_forward_s: Any = 0.0
    """What traffic with the host adds to these, once per step with nothing beside it."""
    host_backward_s: Any = 0.0
    host_once_s: Any = 0.0


def host_waits(
    grid: LayoutGrid, recipe: Recipe, moved: Traffic, host: HostTraffic, beside: Kernels, layers: Any
) -> Exposed:
    """`waits` with offloaded states."""
    plain, overlap = waits(grid, recipe, moved, beside, layers), recipe.overlap_dp
    if not np.any(grid.offload != KEEP):
        return plain
    gather_s, scatter_s = (np.where(grid.zero == 3, one, 0.0) for one in (moved.gather_s, moved.scatter_s))
    scatter_s = np.where(grid.zero == 2, moved.scatter_s, scatter_s)
    forward = (host.up_forward_s, gather_s)
    backward = (host.up_backward_s, gather_s + scatter_s, host.down_backward_s)
    added = (
        exposed_lanes(lanes, each_s, layers, overlap, lanes[1] + taken_s) - known_s
        for lanes, each_s, taken_s, known_s in (
            (forward, beside.forward_s, beside.taken_forward_s + beside.exchange_forward_s, plain.forward_s),
            (backward, beside.backward_s, beside.taken_backward_s + beside.exchange_backward_s, plain.backward_s),
        )
    )
    forward_s, backward_s = (np.where(grid.offload == KEEP, 0.0, np.maximum(0.0, one)) for one in added)
    return replace(plain, host_forward_s=forward_s, host_backward_s=backward_s, host_once_s=host.once_s)


def waits(grid: LayoutGrid, recipe: Recipe, moved: Traffic, beside: Kernels, layers: Any) -> Exposed:
    """Exposed traffic of a stage of `layers` layers whose passes compute as `beside` says."""
    overlap, zero = recipe.overlap_dp, grid.zero

    def left_s(total_s: Any, met_s: Any, kernels_s: Any, taken_s: Any) -> Any:
        """What is left of traffic of `total_s`, `met_s` of it on links where other traffic hides for `taken_s`."""
        whole_s = exposed(total_s, kernels_s, layers, overlap)
        if not np.any(taken_s):
            return whole_s
        return np.maximum(whole_s, exposed(met_s, np.maximum(0.0, kernels_s - taken_s), layers, overlap))

    def beside_backward(total_s: Any, met_s: Any) -> Any:
        return left_s(total_s, met_s, backward_s, beside.taken_backward_s)

    forward_s = np.maximum(0.0, beside.forward_s - beside.exchange_forward_s)
    backward_s = np.maximum(0.0, beside.backward_s - beside.exchange_backward_s)
    gather_s = left_s(moved.gather_s, moved.met_gather_s, forward_s, beside.taken_forward_s)
    each_s, each_met_s = (
        np.where(zero == 3, gather + scatter, np.where(zero == 2, scatter, 0.0))
        for gather, scatter in (
            (moved.gather_s, moved.scatter_s),
            (moved.met_gather_s, moved.met_scatter_s),
        )
    )
    once_s = np.select([zero == 0, zero == 1], [moved.reduce_s, moved.scatter_s + moved.replicas_s], moved.replicas_s)
    once_met_s = np.select([zero == 0, zero == 1], [2.0 * moved.met_scatter_s, moved.met_scatter_s], 0.0)
    each_backward_s = beside_backward(each_s, each_met_s)
    last_s = beside_backward(each_s + once_s, each_met_s + once_met_s) - each_backward_s
    return Exposed(
        forward_s=np.where(zero == 3, gather_s, 0.0),
        backward_s=each_backward_s,
        once_s=last_s + np.where((zero == 1) | (zero == 2), gather_s, 0.0),
    )
