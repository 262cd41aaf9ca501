"""`StageTimes`: seconds that a pipeline stage spends on one micro-batch, forward and backward, by what they go to."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from lockstep.layout import LayerKind
from lockstep.step.communication import Network
from lockstep.step.kernels import Work
from lockstep.step.layer import Passes, Shard, layer_work
from lockstep.step.traffic import layer_waits
from lockstep.workload import FULL, SELECTIVE


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds of one micro-batch by kind. Adds up; scales by a count of layers."""

    compute_forward_s: Any = 0.0
    compute_backward_s: Any = 0.0
    weight_s: Any = 0.0
    """The part of the backward compute that gives weight gradients."""
    tp_forward_s: Any = 0.0
    tp_backward_s: Any = 0.0
    cp_forward_s: Any = 0.0
    cp_backward_s: Any = 0.0
    ep_forward_s: Any = 0.0
    ep_backward_s: Any = 0.0
    ep_hidden_forward_s: Any = 0.0
    """Of the experts' exchange, what runs beside shared experts; no part of the passes."""
    ep_hidden_backward_s: Any = 0.0
    hidden_forward_s: Any = 0.0
    """Tensor and context traffic that hides in a pass on links of data-parallel traffic: this cannot hide there too."""
    hidden_backward_s: Any = 0.0

    def __add__(self, other: StageTimes) -> StageTimes:
        return StageTimes(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __mul__(self, count: Any) -> StageTimes:
        return StageTimes(*(getattr(self, f.name) * count for f in fields(self)))

    __rmul__ = __mul__

    @property
    def forward_s(self) -> Any:
        """A whole forward pass."""
        return self.compute_forward_s + self.tp_forward_s + self.cp_forward_s + self.ep_forward_s

    @property
    def backward_s(self) -> Any:
        """A whole backward pass, recomputation included."""
        return self.compute_backward_s + self.tp_backward_s + self.cp_backward_s + self.ep_backward_s

    @property
    def ep_hidden_s(self) -> Any:
        """What of the experts' exchange runs beside shared experts in both passes."""
        return self.ep_hidden_forward_s + self.ep_hidden_backward_s

    @property
    def total_s(self) -> Any:
        """Both passes."""
        return self.forward_s + self.backward_s

    def where(self, mask: Any, other: StageTimes) -> StageTimes:
        """These times where `mask` holds, the other's elsewhere."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return StageTimes(*(one_s if one_s is other_s else np.where(mask, one_s, other_s) for one_s, other_s in pairs))


def layer_times(shard: Shard, network: Network, kind: LayerKind, gradient_work: Work) -> StageTimes:
    """Seconds of one layer. `gradient_work` is what accumulating its weight gradients costs per micro-batch.

    Full recomputation repeats the forward pass and its traffic before the backward pass, selective kernels of modules.
    A pass takes at least what the host needs to launch its kernels; the wait for the host counts as compute. If the
    host waits for every kernel, its time is added instead.
    """
    work, curve, mode = layer_work(shard, kind), shard.clock.device.efficiency, shard.grid.recompute
    traffic = layer_waits(shard, network, work, kind.experts)
    again = work.forward.when(mode == FULL) + work.repeated.when(mode == SELECTIVE)
    backward = work.backward + gradient_work + again
    repeated = np.where(mode == FULL, 1.0, 0.0)
    waits_backward_s = traffic.backward_s + repeated * traffic.forward_s
    host_forward_s = work.forward.kernels * curve.launch_s
    host_backward_s = backward.kernels * curve.launch_s + repeated * curve.recompute_host_s
    blocking = shard.recipe.launch_blocking
    return StageTimes(
        compute_forward_s=_pass_s(work.forward, host_forward_s, traffic.forward_s, blocking),
        compute_backward_s=_pass_s(backward, host_backward_s, waits_backward_s, blocking),
        weight_s=work.passes.backward.matmul_s / 2.0 + gradient_work.device_s,
        tp_forward_s=traffic.tp_forward_s,
        tp_backward_s=traffic.tp_backward_s + repeated * traffic.tp_forward_s,
        cp_forward_s=traffic.cp_forward_s,
        cp_backward_s=traffic.cp_backward_s + repeated * traffic.cp_forward_s,
        ep_forward_s=traffic.ep_forward_s,
        ep_backward_s=traffic.ep_backward_s + repeated * traffic.ep_forward_s,
        hidden_forward_s=traffic.hidden_forward_s,
        hidden_backward_s=traffic.hidden_backward_s + repeated * traffic.hidden_forward_s,
        ep_hidden_forward_s=traffic.ep_hidden_forward_s,
        ep_hidden_backward_s=traffic.ep_hidden_backward_s + repeated * traffic.ep_hidden_forward_s,
    )


def _pass_s(work: Work, host_s: Any, waits_s: Any, blocking: bool) -> Any:
    """Seconds of a pass apart from its waits for traffic, during which a host that does not block goes on launching."""
    return work.device_s + host_s if blocking else np.maximum(work.device_s, host_s - waits_s)


def part_times(shard: Shard, parts: Passes) -> StageTimes:
    """Seconds of work outside the layers (embedding, head), which is never recomputed."""
    launch_s, blocking = shard.clock.device.efficiency.launch_s, shard.recipe.launch_blocking
    return StageTimes(
        compute_forward_s=parts.forward.seconds(launch_s, blocking),
        compute_backward_s=parts.backward.seconds(launch_s, blocking),
        weight_s=parts.backward.matmul_s / 2.0,
    )
