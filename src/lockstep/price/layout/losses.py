"""Ways to compute the cross entropy (`loss` of `stacks/ways.toml`): which one is meant, and what its peak holds."""

from __future__ import annotations

from lockstep.describe.stacks import find_way

HALF_B = 2.0


def loss_B(kind: str) -> float:
    """Bytes per logit at the peak of the loss. Of a chunked one, of a few tokens at a time (`activations.py`)."""
    return sum(one.size_B(HALF_B) for one in find_way("loss", kind).saves)


def usual_loss(fused: bool, kernels: str) -> str:
    """The way of software whose elementwise kernels are of the library `kernels`, and `fused` or not."""
    return ("compiled" if kernels == "inductor" else "fused") if fused else "eager"


def across_ranks(kind: str, distributed_tensors: bool) -> str:
    """The way where tensor-parallel ranks share the vocabulary (`Habits.distributed_tensors`)."""
    return "sharded" if kind == "eager" and distributed_tensors else kind
