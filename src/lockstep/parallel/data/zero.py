"""Data-parallel traffic of a stage, and what of it a step waits for: gradients reduced, sharded parameters gathered.

    zero 0   all-reduce of the gradients, once per step
    zero 1   reduce-scatter of the gradients and all-gather of the updated parameters, once per step
    zero 2   reduce-scatter after every micro-batch (gradients are never whole), all-gather once per step
    zero 3   all-gather before every forward and backward pass, reduce-scatter after every backward pass (FSDP)
    groups   with several shard groups (HSDP at zero 3), all of this inside a group, and an all-reduce of the shards
             across groups once per step, after the last reduce-scatter

Traffic moves layer by layer, so latency is paid once per layer; without overlap, zero 0 to 2 move all of it at once.

Overlap: traffic of a layer runs beside the kernels of its neighbours, so of C seconds in L layers beside W seconds of
kernels max(C/L, C - W (L-1)/L) is exposed: the first or last layer's share has nothing to hide behind. It is the
recursion of buckets (`buckets.py`) and of prefetched units (`sharded.py`) for L equal layers. Only kernels hide
traffic, not the tensor, context or expert traffic of a pass, which may need the same links; where this hides on them
too, it leaves W less. What comes once per step hides behind what the last micro-batch's own traffic leaves of its
backward pass.

Sources: ZeRO (arXiv 1910.02054) section 7; PyTorch FSDP (arXiv 2304.11277) section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.parallel.group import Levels, collective_s, inner, outer


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups over which a stage's states are divided or repeated."""

    whole: Levels
    """All ranks that hold the same dense parameters."""
    experts: Levels
    """All ranks that hold the same experts."""
    shard_ranks: Any
    """Ranks of `whole` that share one sharded copy."""
    met_s_per_B: Any = 0.0
    """Seconds per byte of a gather on links that tensor or context traffic uses too (`group.shared_s_per_B`)."""

    @property
    def shard(self) -> Levels:
        """The ranks that share one sharded copy: the inner part of all."""
        return inner(self.whole, self.shard_ranks)

    @property
    def replicas(self) -> Levels:
        """The ranks that hold the same shard in different copies; one rank without copies."""
        return outer(self.whole, self.shard)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Data-parallel traffic of one stage, in seconds as if alone on the network."""

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


def traffic(
    groups: Groups, zero: Any, elements: tuple[Any, Any], *, parameter_B: float, wire_B: float, layers: int,
    overlap: bool,
) -> Traffic:  # fmt: skip
    """Traffic of a stage of `layers` layers with (dense, expert) `elements` on a rank, sharded at stage `zero`.

    A parameter takes `parameter_B`, a gradient `wire_B` bytes on the network.
    """
    dense, expert = elements
    pieces = np.where(zero == 3, layers, layers if overlap else 1)

    def whole(op: str, group: Levels, bytes_each: float) -> Any:
        seconds = pieces * collective_s(op, group, dense * bytes_each / pieces)
        if np.any(expert):
            seconds = seconds + pieces * collective_s(op, groups.experts, expert * bytes_each / pieces)
        return seconds

    shard, met_s = groups.shard, groups.met_s_per_B * dense
    return Traffic(
        gather_s=whole("all-gather", shard, parameter_B),
        scatter_s=whole("reduce-scatter", shard, wire_B),
        reduce_s=whole("all-reduce", groups.whole, wire_B),
        replicas_s=collective_s("all-reduce", groups.replicas, dense * wire_B / groups.shard_ranks),
        met_gather_s=met_s * parameter_B,
        met_scatter_s=met_s * wire_B,
    )


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

    def beside(self, way: str) -> tuple[Any, Any]:
        """(kernels that data-parallel traffic may run beside, those of them taken on some links) of a pass."""
        all_s, exchange_s = getattr(self, f"{way}_s"), getattr(self, f"exchange_{way}_s")
        return np.maximum(0.0, all_s - exchange_s), getattr(self, f"taken_{way}_s")


@dataclass(frozen=True, slots=True)
class Exposed:
    """Seconds that a stage waits: in every forward and backward pass, and once per step."""

    forward_s: Any
    backward_s: Any
    reduce_s: Any
    """In the last backward pass, beyond what every one waits for."""
    gather_s: Any
    """For updated parameters, in the first forward pass."""

    @property
    def once_s(self) -> Any:
        """Once per step."""
        return self.reduce_s + self.gather_s


def exposed(total_s: Any, beside_s: Any, layers: Any, overlap: bool) -> Any:
    """Seconds of `total_s` left over beside `beside_s` of kernels, when both come in `layers` pieces."""
    if not overlap:
        return total_s
    return np.maximum(total_s / layers, total_s - beside_s * (layers - 1) / layers)


def waits(zero: Any, moved: Traffic, kernels: Kernels, layers: Any, overlap: bool) -> Exposed:
    """Exposed traffic of a stage of `layers` layers whose passes compute as `kernels` says."""

    def left_s(total_s: Any, met_s: Any, way: str) -> Any:
        """What is left of traffic of `total_s`, `met_s` of it on links where other traffic hides too."""
        kernels_s, taken_s = kernels.beside(way)
        whole_s = exposed(total_s, kernels_s, layers, overlap)
        if not np.any(taken_s):
            return whole_s
        shared_s = np.minimum(met_s, total_s)
        return np.maximum(whole_s, exposed(shared_s, np.maximum(0.0, kernels_s - taken_s), layers, overlap))

    gather_s = left_s(moved.gather_s, moved.met_gather_s, "forward")
    each_s, each_met_s = (
        np.where(zero == 3, gather + scatter, np.where(zero == 2, scatter, 0.0))
        for gather, scatter in ((moved.gather_s, moved.scatter_s), (moved.met_gather_s, moved.met_scatter_s))
    )
    once_s = np.select([zero == 0, zero == 1], [moved.reduce_s, moved.scatter_s + moved.replicas_s], moved.replicas_s)
    once_met_s = np.select([zero == 0, zero == 1], [2.0 * moved.met_scatter_s, moved.met_scatter_s], 0.0)
    each_backward_s = left_s(each_s, each_met_s, "backward")
    return Exposed(
        forward_s=np.where(zero == 3, gather_s, 0.0),
        backward_s=each_backward_s,
        reduce_s=left_s(each_s + once_s, each_met_s + once_met_s, "backward") - each_backward_s,
        gather_s=np.where((zero == 1) | (zero == 2), gather_s, 0.0),
    )
