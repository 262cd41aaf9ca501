"""Data-parallel traffic of a stage: gradients reduced, sharded parameters gathered.

    zero 0   all-reduce of the gradients, once per step
    zero 1+  reductions of the gradients and gathers of the parameters, when the software does them (`sharing.py`): of
             all where parameters are divided, else of those that the update has changed
    broadcasts  where every rank sends the whole tensors that it updated to all others, one after another around a ring:
             sum over tensors of (p - 1) hops' latency and part of the start, and all bytes once over the slowest link
    groups   with several shard groups (HSDP), all of this inside a group, and an all-reduce of the shards across
             groups once per step, after the last reduction, or after every one (`sharing.py`)

Traffic moves layer by layer, so latency is paid once per layer; without overlap, zero 0 to 2 move all of it at once.

What of it is waited for: `around.py`.

Sources: ZeRO (arXiv 1910.02054) section 7; PyTorch FSDP (arXiv 2304.11277) section 3.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number, Whole
from lockstep.simulate.collectives import PlainLink
from lockstep.simulate.parallel.data.sharing import Sharing
from lockstep.simulate.parallel.group import Levels, collective_s

TENSORS = 9
"""Tensors of a layer that are dealt to ranks whole: two of each projection, three products, two norms (InternLM)."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups over which a stage's states are divided or repeated."""

    whole: Levels
    """All ranks that hold the same dense parameters."""
    experts: Levels
    """All ranks that hold the same experts."""
    shard_ranks: Whole
    """Ranks of `whole` that share one sharded copy."""
    expert_shard_ranks: Whole
    """Ranks of `experts` that do."""
    shard: Levels
    """The ranks that share one sharded copy."""
    replicas: Levels
    """The ranks that hold the same shard in different copies; one rank without copies."""
    expert_shard: Levels
    """The ranks that share one sharded copy of an expert."""
    expert_replicas: Levels
    """The ranks that hold the same shard of an expert in different copies."""
    met_s_per_B: Number = 0.0
    """Seconds per byte of a gather on links that tensor or context traffic uses too (`group.shared_s_per_B`)."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Data-parallel traffic of one stage, in seconds as if alone on the network."""

    gather_s: Number
    """One all-gather of all parameters of the stage."""
    scatter_s: Number
    """One reduction of all gradients of the stage, of which a rank keeps its part."""
    reduce_s: Number
    """One all-reduce of all gradients of the stage."""
    replicas_s: Number
    """One all-reduce of the shards across shard groups; 0 with a single group."""
    met_gather_s: Number = 0.0
    """Of a gather and of a scatter, seconds on links that tensor and context traffic uses too."""
    met_scatter_s: Number = 0.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a stage on one rank, whole, as they travel: (dense, expert)."""

    parameters_B: tuple[Number, Number]
    """Of all parameters."""
    updated_B: tuple[Number, Number]
    """Of those that are trained; with adapters, of these alone."""
    gradients_B: tuple[Number, Number]

    def gathered_B(self, sharing: Sharing) -> tuple[Number, Number]:
        """Of what a gather brings together: all parameters where they are divided, else the updated ones."""
        sides = zip(self.parameters_B, self.updated_B, strict=True)
        dense_B, expert_B = (np.where(sharing.divides, all_B, new_B) for all_B, new_B in sides)
        return dense_B, expert_B


def _replicas_s(groups: Groups, gradients_B: tuple[Number, Number]) -> Number:
    """Seconds of one all-reduce of the shards across copies, of dense layers and of experts."""
    dense_B, expert_B = gradients_B
    seconds = collective_s("all-reduce", groups.replicas, dense_B / groups.shard_ranks)
    if np.any(expert_B):
        seconds = seconds + collective_s("all-reduce", groups.expert_replicas, expert_B / groups.expert_shard_ranks)
    return seconds


def traffic(groups: Groups, zero: Whole, sharing: Sharing, sizes: Sizes, layers: int, overlap: bool) -> Traffic:
    """Traffic of a stage of `layers` layers, sharded at stage `zero`."""
    pieces = np.where(zero == 3, layers, layers if overlap else 1)
    gathered_B, gradients_B = sizes.gathered_B(sharing), sizes.gradients_B

    def whole(op: str, group: Levels, experts: Levels) -> Number:
        dense_B, expert_B = gathered_B if op == "all-gather" else gradients_B
        seconds = pieces * collective_s(op, group, dense_B / pieces)
        if np.any(expert_B):
            seconds = seconds + pieces * collective_s(op, experts, expert_B / pieces)
        return seconds

    shard, expert_shard = groups.shard, groups.expert_shard
    scatter_s = whole("reduce-scatter", shard, expert_shard)
    twice: Number = 1.0
    if np.any(sharing.all_reduces):
        scatter_s = np.where(sharing.all_reduces, whole("all-reduce", shard, expert_shard), scatter_s)
        twice = np.where(sharing.all_reduces, 2.0, 1.0)
    gather_s = whole("all-gather", shard, expert_shard)
    if np.any(sharing.broadcasts):
        gather_s = np.where(sharing.broadcasts, broadcasts_s(shard, sum(gathered_B), layers * TENSORS), gather_s)
    return Traffic(
        gather_s=gather_s,
        scatter_s=scatter_s,
        reduce_s=whole("all-reduce", groups.whole, groups.experts),
        replicas_s=_replicas_s(groups, gradients_B),
        met_gather_s=groups.met_s_per_B * gathered_B[0],
        met_scatter_s=groups.met_s_per_B * gradients_B[0] * twice,
    )


def broadcasts_s(group: Levels, size_B: Number, tensors: int) -> Number:
    """Seconds in which ranks broadcast, in turn around a ring, the tensors of `size_B` bytes that are dealt to them."""
    hops_s: Number = 0.0
    slowest_s: Number = 0.0
    inside: Number = 1
    for ranks, *words in reversed(list(group)):
        link = PlainLink(*words)
        # Assumed: ranks meet at every hop, as at each of the 2 (n - 1) messages that share a ring's start.
        hops_s = hops_s + inside * ((ranks - 1) * link.latency_s + (np.asarray(ranks) > 1) * link.start_s / 2)
        inside = inside * ranks
    within: Number = 1
    for ranks, _, bandwidth_Bps, *_ in group:
        # All ranks below a link bring their share of it into the ring.
        slowest_s = np.maximum(slowest_s, np.where(np.asarray(ranks) > 1, size_B / (bandwidth_Bps * within), 0.0))
        within = within * ranks
    return np.minimum(tensors, within) * hops_s + slowest_s


@dataclass(frozen=True, slots=True)
class Kernels:
    """Seconds of kernels in a stage's passes, and of them, those that other traffic hides in on the same links."""

    forward_s: Number
    backward_s: Number
    taken_forward_s: Number = 0.0
    """By tensor and context traffic, on some links."""
    taken_backward_s: Number = 0.0
    exchange_forward_s: Number = 0.0
    """By the experts' exchange, on all links."""
    exchange_backward_s: Number = 0.0

    def beside(self, way: str) -> tuple[Number, Number]:
        """(kernels that data-parallel traffic may run beside, those of them taken on some links) of a pass."""
        all_s, exchange_s = getattr(self, f"{way}_s"), getattr(self, f"exchange_{way}_s")
        return np.maximum(0.0, all_s - exchange_s), getattr(self, f"taken_{way}_s")
