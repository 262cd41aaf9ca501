"""`Device`: what one device of a pipeline does where layers are placed by hand, chunk by chunk.

A chunk does its share of what the layers of its device do, by their time; the embedding, the modules of multi-token
prediction and the head come on top where they are. A pipeline of such devices has no closed form: its order of passes
is replayed, which gives the time of the simulated step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Number
from lockstep.price.step.stage import StageTimes
from lockstep.simulate.parallel.data.around import Around, Exposed
from lockstep.simulate.parallel.piece import Flow, total_s
from lockstep.simulate.parallel.pipeline import Schedule, Times, order_spans_s


@dataclass(frozen=True, slots=True)
class Device:
    """One device, for one micro-batch."""

    body: StageTimes
    """All its layers."""
    around: Around
    waits: Exposed
    update_s: Number
    shares: tuple[float, ...] = ()
    """Of the layers, by chunk."""
    more: tuple[StageTimes, ...] = ()
    """Embedding, prediction modules and head, by chunk."""

    @property
    def extra(self) -> StageTimes:
        """What it does besides its layers."""
        return sum(self.more, StageTimes())

    @property
    def exposed_once(self) -> tuple[Flow, ...]:
        """What is reduced once per step, each with its share of the seconds that the step waits for it."""
        flows, waits_s = self.around.once, float(np.asarray(self.waits.reduce_s))
        all_s = float(np.asarray(total_s(flows)))
        share = waits_s / all_s if all_s else 0.0
        return tuple(replace(one, seconds=float(np.asarray(one.seconds)) * share) for one in flows)

    @property
    def weight_frac(self) -> float:
        """Share of the backward pass for weight gradients: that of the layers, of the rest where there are none."""
        waits_s = self.waits.backward_s + self.waits.host_backward_s
        layers_s, rest = float(np.asarray(self.body.backward_s + waits_s)), self.extra
        if float(np.asarray(self.body.total_s)) > 0:
            return float(np.asarray(self.body.weight_s)) / layers_s
        backward_s = float(np.asarray(rest.backward_s))
        return float(np.asarray(rest.weight_s)) / backward_s if backward_s else 0.0

    @property
    def pass_s(self) -> float:
        """A forward and a backward pass of all chunks."""
        waits_s = self.waits.forward_s + self.waits.backward_s + self.waits.host_s
        return float(np.asarray(self.body.total_s + self.extra.total_s + waits_s))

    @property
    def ready_s(self) -> float:
        """From the norm of the gradients to the next step, apart from the fixed time of the host."""
        waits = self.waits
        return float(np.asarray(self.around.host.once_s + self.update_s + waits.outer_s + waits.gather_s))


def shares_of(chunks: Sequence[StageTimes]) -> tuple[float, ...]:
    """Share of each chunk in the time of a device's layers; equal where it has none."""
    seconds = [float(np.asarray(one.total_s)) for one in chunks]
    whole_s = sum(seconds)
    return tuple(one_s / whole_s if whole_s else 1.0 / len(seconds) for one_s in seconds)


def chunk_times(devices: Sequence[Device], transfer_s: Number, blocking: bool) -> Times:
    """Seconds of every chunk [devices, chunks] as the pipeline takes them."""
    rows = [_row(one) for one in devices]
    forward_s, backward_s, weight_s = (np.array([row[i] for row in rows], dtype=float) for i in range(3))
    return Times(
        forward_s=forward_s, backward_s=backward_s, weight_s=weight_s, transfer_s=transfer_s, blocking=blocking
    )


def _row(one: Device) -> tuple[list[float], list[float], list[float]]:
    """(forward, backward, weight-gradient) seconds of the chunks of a device."""
    body, waits = one.body, one.waits
    forward_s = float(np.asarray(body.forward_s + waits.forward_s + waits.host_forward_s))
    backward_s = float(np.asarray(body.backward_s + waits.backward_s + waits.host_backward_s))
    weight_s, frac = float(np.asarray(body.weight_s)), one.weight_frac
    found: tuple[list[float], list[float], list[float]] = ([], [], [])
    for share, more in zip(one.shares, one.more, strict=True):
        more_s = float(np.asarray(more.backward_s))
        found[0].append(share * forward_s + float(np.asarray(more.forward_s)))
        found[1].append(share * backward_s + more_s)
        found[2].append(share * weight_s + frac * more_s)
    return found


def replayed_s(schedule: Schedule, microbatches: int, devices: Sequence[Device], times: Times) -> float:
    """Seconds from the first pass to updated parameters: each device reduces its gradients when its passes have ended,
    then all go on together.
    """
    chunks = len(devices[0].shares)
    order = schedule.order_for(len(devices), microbatches, chunks, times)
    ends_s = order_spans_s(schedule, order, chunks, times)[1].tolist()
    norm_s = max(end_s + float(np.asarray(one.waits.reduce_s)) for end_s, one in zip(ends_s, devices, strict=True))
    return float(norm_s) + max(one.ready_s for one in devices)
