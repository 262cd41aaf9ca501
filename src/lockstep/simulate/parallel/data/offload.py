"""Seconds of traffic between a device and its host's memory, and of the update that the host makes.

With P bytes of a rank's parameters and G of its gradients (its shards, from zero 1 on), a step of m micro-batches moves

    up     P before every forward and every backward pass, where parameters are offloaded, or what of it is gathered
           then; full recomputation runs inside the backward pass on the parameters that are there, and asks for no
           third time, except with DeepSpeed's limits (`coordinator.py`)
           G from the second micro-batch on: the sum so far, which the device adds the new gradients to
           P once per step, after the update, where parameters stay on the device
    down   G after every backward pass; where gradients stay on the device until the end (`price/layout/layout.py`),
    once

in either direction at most at the link's rate. The host reads and writes states, gradients and parameters once at
HOST_STREAM_FRAC of its memory's rate, after the last gradient and before the first new parameter (DeepSpeed's step();
ZeRO-Offload's delayed update is not assumed). Paged states, which the device updates, come for the update and leave
after it, one after the other, as far as they find no room on the device (`price/layout/memory.py`).

Kept activations of some layers of a stage go too: with A bytes of them per micro-batch

    down   A during every forward pass, of each layer once it has computed
    up     A during every backward pass, of each layer before it computes; where layers are recomputed from their
           inputs, these inputs are all that travels

Where a layer of the stage stays, its kernels hide the last copy down and the first one up; where none stays, a layer's
share has nothing to hide behind. DeepSpeed copies checkpoints from and to memory that is not pinned, and waits.

What comes with every pass travels layer by layer (pinned memory, streams of their own), like the gathers and
reductions that it follows or precedes: `around.py` says what of it is waited for.

Sources: ZeRO-Offload (arXiv 2101.06840) section 4; ZeRO-Infinity (arXiv 2104.07857) section 4.1 for the passes; QLoRA
(arXiv 2305.14314) section 3 for pages;
DeepSpeed, deepspeed/runtime/zero/stage_1_and_2.py: async_accumulate_grad_in_cpu_via_gpu, and stage3.py:
partition_grads, for sums that go down and up again. PyTorch, torch/distributed/fsdp/_fully_shard: _fsdp_param.py
(all_gather_inputs) sends the shard before every unshard, _fsdp_state.py (_pre_forward) none for recomputation, and
_fsdp_collectives.py (foreach_reduce) adds gradients on the host, which saves G upwards and waits for the sum instead.
Activations: Transformer Engine 2, pytorch/cpu_offload.py: AsyncDoubleBufferGroupOffloadHandler (copies of the first
layers in windows over all of them); torchtune 0.6, training/_activation_offloading.py: OffloadActivations (streams of
their own); DeepSpeed, runtime/activation_checkpointing/checkpointing.py: CPU_CHECKPOINT.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number, Truth, Whole


@dataclass(frozen=True, slots=True)
class HostTraffic:
    """Seconds of one rank's transfers, each direction as if alone on the link, and of the host's update."""

    up_forward_s: Number = 0.0
    """Before a forward pass."""
    up_backward_s: Number = 0.0
    """Before a backward pass, on average over the micro-batches."""
    down_backward_s: Number = 0.0
    """After a backward pass."""
    once_s: Number = 0.0
    """Both directions, once per step."""
    update_s: Number = 0.0
    kept_s: Number = 0.0
    """Kept activations: down in every forward pass, and up again in its backward pass."""
    kept_alone_frac: float = 0.0
    """Of these the share that no kernels hide."""

    @property
    def moving(self) -> Truth:
        """Of which layouts any pass comes with transfers."""
        return np.not_equal(self.up_forward_s + self.up_backward_s + self.down_backward_s + self.kept_s, 0.0)

    @property
    def moves(self) -> bool:
        """Whether that is so of any layout."""
        return bool(np.any(self.moving))

    def way(self, way: str) -> tuple[Number, Number]:
        """Seconds (up, down) of every `forward` or `backward` pass."""
        if way == "forward":
            return self.up_forward_s, self.kept_s
        return self.up_backward_s + self.kept_s, self.down_backward_s

    def alone(self, way: str, share: float) -> tuple[Number, Number]:
        """Of these what has nothing to hide behind, with `share` of states."""
        kept_s = self.kept_alone_frac * self.kept_s
        if way == "forward":
            return share * self.up_forward_s, kept_s
        return share * self.up_backward_s + kept_s, share * self.down_backward_s


def kept_alone_frac(offloaded: int, layers: int, blocking: bool) -> float:
    """Share of the copies of activations that no kernels hide, with so many `offloaded` of a stage's `layers`."""
    if blocking:
        return 1.0
    return 1.0 / layers if offloaded >= layers else 0.0


def host_traffic(
    link_Bps: float, update_Bps: float, parameters_B: Number, gradients_B: Number, update_B: Number,
    microbatches: Whole, *,
    offloaded: Truth, parameters_leave: Truth, gradients_leave: Truth, kept_B: Number = 0.0, kept_alone: float = 0.0,
    paged_B: Number = 0.0, gathered: tuple[Number, Number] = (1.0, 1.0),
) -> HostTraffic:  # fmt: skip
    """Traffic of a rank that owns so many bytes, where states, parameters and every gradient are on the host.

    `link_Bps` is what a device reaches of its link with the host, `update_Bps` what an update there does.

    `offloaded`, `parameters_leave` and `gradients_leave` say where. `kept_B` are activations of a micro-batch that
    leave, `kept_alone` of them unhidden; `paged_B` are states that come and go; `gathered` shares of parameters are
    fetched for a forward and a backward pass.
    """
    parameters_s, gradients_s = parameters_B / link_Bps, gradients_B / link_Bps
    later_frac = 1.0 - 1.0 / np.maximum(microbatches, 1)
    forward_s, backward_s = (np.where(parameters_leave, parameters_s * share, 0.0) for share in gathered)
    return HostTraffic(
        up_forward_s=forward_s,
        up_backward_s=backward_s + np.where(gradients_leave, later_frac * gradients_s, 0.0),
        down_backward_s=np.where(gradients_leave, gradients_s, 0.0),
        once_s=np.where(offloaded & ~parameters_leave, parameters_s, 0.0)
        + np.where(offloaded & ~gradients_leave, gradients_s, 0.0)
        + 2.0 * paged_B / link_Bps,
        update_s=update_B / update_Bps,
        kept_s=kept_B / link_Bps,
        kept_alone_frac=kept_alone,
    )
