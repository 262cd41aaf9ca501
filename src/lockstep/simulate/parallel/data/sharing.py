"""`Sharing`: when sharded states travel, which software decides in different ways.

    software    zero  gradients                                         parameters
    any         1     reduce-scatter once per step                      all-gather once per step
                2     reduce-scatter after every micro-batch            all-gather once per step
                3     reduce-scatter after every micro-batch            all-gather before every pass
    megatron    1     as any (distributed optimizer)                    as any
                2, 3  as any (Megatron FSDP: optim_grads, optim_grads_params)
    fsdp2       2, 3  as any                                            before every forward pass; at 3 also before
                                                                        every backward pass (reshard_after_forward)
    deepspeed   1, 2  as any, by an all-reduce of whole buckets         as any, beside nothing
                3     as any                                            the shares of them that its limits in elements
                                                                        let go (`coordinator.py`)
    internevo   1, 2  as deepspeed                                      broadcast by every rank in turn, beside nothing
                3     as any                                            as any

What is gathered once per step by software that keeps parameters whole are the updated ones: of frozen weights nothing.
Once per step means beside the last backward pass, and for parameters beside the first forward pass. With pipeline
stages, gradients of all stages of ZeRO are reduced once per step, as no software that has both does otherwise; torch
and DeepSpeed then begin when all passes have ended. `sync` says it for other layouts: `step` is FSDP2 with gradient
sync off until the last micro-batch, which keeps gradients whole, and parameters gathered for a forward pass too.
With copies of shards (HSDP) FSDP2 sums them after every backward pass too (set_requires_all_reduce, which torchtitan
leaves on), others once per step. `reshard` false keeps the parameters that a forward pass gathered until its backward
pass.

Sources: Megatron Core 0.15, core/optimizer/distrib_optimizer.py and core/distributed/fsdp (grad_reduce_every_bprop);
PyTorch 2.9, torch/distributed/fsdp/_fully_shard/_fully_shard.py (set_requires_gradient_sync, reshard_after_forward) and
torch/distributed/pipelining/stage.py (backward_maybe_with_nosync); DeepSpeed 0.16, runtime/zero/stage_1_and_2.py
(reduce_ready_partitions_and_remove_grads, allreduce_and_copy_with_multiple_ranks, step) and runtime/pipe/engine.py
(_exec_reduce_grads); InternEvo, internlm/solver/optimizer/hybrid_zero_optim.py (_partition_param_list gives whole
tensors to ranks; broadcast_params) and configs/7B_sft.py (overlap_sync_param false).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number, Truth, Whole

SOFTWARE = ("any", "megatron", "fsdp2", "deepspeed", "internevo")
SYNCS = ("micro-batch", "step")


@dataclass(frozen=True, slots=True)
class Sharing:
    """What of a stage's sharded states travels when; arrays where layouts differ in their ZeRO stage."""

    sharded: Truth
    """Whether any states are divided; else gradients are all-reduced once per step."""
    divides: Truth
    """Whether the parameters themselves are divided, so that frozen ones are gathered too."""
    scatters: Truth
    """Gradients are reduced after every backward pass; else once per step."""
    gathers_forward: Truth
    """Parameters are gathered before every forward pass."""
    gathers_backward: Truth
    gathers_once: Truth
    """Parameters are gathered once per step."""
    keeps: Truth
    """Gathered parameters stay whole from a forward pass to its backward pass, or all the time."""
    sums_copies: Truth = np.False_
    """Copies of a shard sum its gradients after every backward pass; else once per step."""
    all_reduces: Truth = np.False_
    """A reduction of sharded gradients is an all-reduce, of which a rank keeps its part."""
    gathers_late: bool = False
    """What is gathered once per step runs beside nothing."""
    reduces_late: bool = False
    """What is reduced once per step runs beside nothing."""
    broadcasts: Truth = np.False_
    """Updated parameters are broadcast, a rank's after another's, instead of gathered."""
    forward_frac: Number = 1.0
    """Of what is gathered before every forward pass, the share that is; and the same before a backward pass."""
    backward_frac: Number = 1.0
    once_frac: Number = 0.0
    """Of parameters that are gathered before every forward pass, the share that is gathered once per step."""
    held_frac: Number | None = None
    """Share of the parameters that gathers leave whole, at most; None where two layers are, this and the next."""

    @property
    def often(self) -> Truth:
        """Whether states travel with every micro-batch."""
        return self.scatters | self.gathers_forward


def sharing(
    zero: Whole,
    staged: bool,
    software: str = "any",
    sync: str | None = None,
    reshard: bool = True,
    summed: Truth = np.False_,
) -> Sharing:
    """The sharing of stages `zero` by `software`, `staged` where there are several pipeline stages.

    `summed`: where gradients add up over micro-batches before they are reduced, unless `sync` says otherwise.
    """
    zero = np.asarray(zero)
    once: Truth = np.asarray(sync == "step") | ((sync is None) & (np.asarray(staged) | summed))
    fsdp, internevo = software == "fsdp2", software == "internevo"
    whole = internevo or software == "deepspeed"
    each = zero >= (2 if fsdp else 3)
    again = (zero == 3) & reshard
    forward = each & (again | np.logical_not(once))
    return Sharing(
        sharded=zero >= 1,
        divides=each,
        scatters=(zero >= 2) & np.logical_not(once),
        gathers_forward=forward,
        gathers_backward=again,
        gathers_once=(zero >= 1) & ~forward,
        keeps=~again,
        sums_copies=fsdp & (zero >= 2) & np.logical_not(once),
        all_reduces=(zero >= 1) & (zero < 3) & whole,
        gathers_late=whole,
        reduces_late=staged and (fsdp or whole),
        broadcasts=(zero >= 1) & (zero < 3) & internevo,
    )
