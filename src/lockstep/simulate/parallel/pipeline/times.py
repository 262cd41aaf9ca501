"""`Times`: what one micro-batch costs on the stages of a pipeline, in seconds; every field broadcasts.

A device is a stage, or several chunks of layers (virtual stages). The middle device needs `forward_s` and `backward_s`
per micro-batch for all its chunks together. The first device may need more (the embedding, in its first chunk) and the
last device too (head and loss, in its last chunk). The backward pass splits into input gradients, `backward_s -
weight_s`, and weight gradients, `weight_s`; the extras split in the same proportion.

A message between neighbours takes `transfer_s`. Two models:
  blocking     every forward and every backward pass holds its device `transfer_s` longer, at every stage: the ranks
               exchange together and wait, as in Megatron-LM's 1F1B without overlap.
  overlapped   messages travel while devices compute: a pass starts at the earliest `transfer_s` after its input was
               made on another device (the model of Qi et al. 2024, T_comm). Closed forms expect messages shorter than
               passes: longer ones queue on their link, which the program shows and the forms do not.

Part of a pass may be traffic of its own layers (the experts' all-to-all): `forward_comm_s` and `backward_comm_s`. A
pass alone waits for it. Where a schedule runs a forward and a backward pass as one cell (F&B of DualPipe), traffic x
of both runs beside the computing c of both, and takes a share of the device while it runs:

    F&B = max(x, c + share x),    x = forward_comm_s + backward_comm_s,    c = forward_s + backward_s - x
"""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, fields, replace
from lockstep.base.types.arrays import Bools, Number


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds per micro-batch. `weight_s=None` means half of the backward pass, as for matrix products."""

    forward_s: Number
    backward_s: Number
    weight_s: Number | None = None
    transfer_s: Number = 0.0
    blocking: bool = True
    first_forward_s: Number = 0.0
    first_backward_s: Number = 0.0
    last_forward_s: Number = 0.0
    last_backward_s: Number = 0.0
    forward_comm_s: Number = 0.0
    backward_comm_s: Number = 0.0
    comm_device_frac: Number = 0.0
    """Share of the device's arithmetic that traffic beside computing takes."""

    @property
    def weight_frac(self) -> Number:
        """Share of the backward pass spent on weight gradients."""
        if self.weight_s is None:
            return 0.5
        backward_s = np.asarray(self.backward_s, dtype=float)
        frac: Number = np.divide(
            self.weight_s, backward_s, out=np.zeros_like(backward_s + self.weight_s), where=backward_s > 0
        )
        return frac

    @property
    def weight_part_s(self) -> Number:
        """Weight-gradient time of a middle device."""
        return self.backward_s * 0.5 if self.weight_s is None else self.weight_s

    def held(self, stages: Number, chunks: Number = 1) -> tuple[Number, Number]:
        """(forward, backward) seconds of a middle device with the time its messages hold it."""
        hold_s = np.where(np.greater(stages, 1), self.transfer_s, 0.0) * chunks if self.blocking else 0.0
        return self.forward_s + hold_s, self.backward_s + hold_s

    @property
    def comm_s(self) -> Number:
        """Traffic of both passes that a cell hides."""
        return self.forward_comm_s + self.backward_comm_s

    @property
    def cell_s(self) -> Number:
        """A forward and a backward pass of a middle device as one cell, without messages."""
        compute_s = self.forward_s + self.backward_s - self.comm_s
        return np.maximum(self.comm_s, compute_s + self.comm_device_frac * self.comm_s)

    def held_cell_s(self, stages: Number, chunks: Number = 1) -> Number:
        """The same with the time that messages of both passes hold it."""
        forward_s, backward_s = self.held(stages, chunks)
        return self.cell_s + (forward_s - self.forward_s) + (backward_s - self.backward_s)

    def delay_s(self, stages: Number) -> Number:
        """Seconds a message is under way while devices compute."""
        return 0.0 if self.blocking else np.where(np.greater(stages, 1), self.transfer_s, 0.0)

    @property
    def first_s(self) -> Number:
        """Extra seconds of the first device."""
        return self.first_forward_s + self.first_backward_s

    @property
    def last_s(self) -> Number:
        """Extra seconds of the last device."""
        return self.last_forward_s + self.last_backward_s

    def ideal_s(self, stages: Number, microbatches: Number) -> Number:
        """Mean computing time of the devices: the step time if work were balanced and nobody ever waited."""
        extra_s = (self.first_s + self.last_s) / stages
        return microbatches * (self.forward_s + self.backward_s - self.comm_s + extra_s)

    def recomputing(self, share_frac: float = 1.0) -> Times:
        """Times with activation recomputation: `share_frac` of the forward pass runs again before the backward pass.

        The weight gradients take what they took. The embedding, the head and the loss are not recomputed. Memory: what
        stays alive per micro-batch is then the input of the recomputed part, not all activations.
        """
        if not 0 <= share_frac <= 1:
            raise BadInput(f"the recomputed share of the forward pass is between 0 and 1, got {share_frac}")
        backward_s = self.backward_s + share_frac * self.forward_s
        comm_s = self.backward_comm_s + share_frac * self.forward_comm_s
        return replace(self, backward_s=backward_s, weight_s=self.weight_part_s, backward_comm_s=comm_s)

    def only(self, mask: Bools) -> Times:
        """The entries [true] where `mask` [...] holds; scalars stay scalars."""
        picked = {f.name: getattr(self, f.name) for f in fields(self)}
        return Times(**{name: value[mask] if np.ndim(value) else value for name, value in picked.items()})
