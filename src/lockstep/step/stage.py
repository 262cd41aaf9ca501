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
    def total_s(self) -> Any:
        """Both passes."""
        return self.forward_s + self.backward_s

    def where(self, mask: Any, other: StageTimes) -> StageTimes:
        """These times where `mask` holds, the other's elsewhere."""
        return StageTimes(*(np.where(mask, getattr(self, f.name), getattr(other, f.name)) for f in fields(self)))


def layer_times(shard: Shard, network: Network, kind: LayerKind, gradient_work: Work) -> StageTimes:
    """Seconds of one layer. `gradient_work` is what accumulating its weight gradients costs per micro-batch.

    Full recomputation repeats the forward pass and its traffic before the backward pass, selective the attention core.
    """
    work, launch_s = layer_work(shard, kind), shard.clock.device.efficiency.launch_s
    traffic = layer_waits(shard, network, work, kind.experts)
    mode = shard.grid.recompute
    forward_s = work.forward.seconds(launch_s)
    again_s = np.where(mode == FULL, forward_s, np.where(mode == SELECTIVE, work.core.forward.device_s, 0.0))
    backward_s = (work.backward + gradient_work).seconds(launch_s)
    full = mode == FULL
    return StageTimes(
        compute_forward_s=forward_s,
        compute_backward_s=backward_s + again_s,
        weight_s=work.passes.backward.matmul_s / 2.0 + gradient_work.device_s,
        tp_forward_s=traffic.tp_forward_s,
        tp_backward_s=traffic.tp_backward_s + np.where(full, traffic.tp_forward_s, 0.0),
        cp_forward_s=traffic.cp_forward_s,
        cp_backward_s=traffic.cp_backward_s + np.where(full, traffic.cp_forward_s, 0.0),
        ep_forward_s=traffic.ep_forward_s,
        ep_backward_s=traffic.ep_backward_s + np.where(full, traffic.ep_forward_s, 0.0),
    )


def part_times(shard: Shard, parts: Passes) -> StageTimes:
    """Seconds of work outside the layers (embedding, head), which is never recomputed."""
    launch_s = shard.clock.device.efficiency.launch_s
    return StageTimes(
        compute_forward_s=parts.forward.seconds(launch_s),
        compute_backward_s=parts.backward.seconds(launch_s),
        weight_s=parts.backward.matmul_s / 2.0,
    )
