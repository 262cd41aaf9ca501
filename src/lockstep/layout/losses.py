"""Ways to compute the cross entropy, and what each holds of the logits at its peak."""

LOSS_B = {
    "watched": 4.0 + 4.0 + 4.0 + 4.0,
    "sharded": 4.0 + 4.0 + 4.0 + 4.0,
    "returned": 4.0 + 4.0 + 4.0 + 4.0,
    "eager": 4.0 + 4.0 + 4.0,
    "upcast": 4.0 + 4.0,
    "in-place": 2.0 + 4.0,
    "copied": 2.0 + 4.0 + 4.0,
    "in-parts": 2.0 + 4.0,
    "fused": 2.0 + 4.0,
    "half": 2.0 + 2.0,
    "compiled": 2.0 + 2.0,
    "pieces": 2.0 + 2.0 / 8,
    "chunked": 2.0 + 4.0,
}
"""Bytes per logit at the peak of the loss: eager, one fp32 kernel after another, holds log-probabilities, their
gradient and that of the logits; sharded, the same over parts of the vocabulary in operations of DTensor, besides a sum
(PyTorch, torch/distributed/tensor/parallel/loss.py); upcast, one kernel on fp32 logits, these and their gradient;
in-place, one kernel after another (Megatron's vocabulary-parallel loss), half precision, and fp32 in which the gradient
takes the logit's place; copied, the same on a copy, beside which the pipeline's engine keeps its output (BigScience);
fused the same as in-place; half, one kernel that reads and writes half precision (FlashAttention's cross entropy);
compiled, what Inductor makes of a loss that converts to fp32: it writes that nowhere (its code in PyTorch 2.13);
chunked as fused, of a few tokens at a time (`activations.py`); returned as eager, while the training loop holds the
logits in fp32 too (the outputs of a Hugging Face model); pieces one kernel (compiled) for an eighth of the tokens, with
all logits made before (torchtune's CEWithChunkedOutputLoss); watched, for metrics, as returned (InternEvo). Their time:
`kernels/loss.py`."""


def usual_loss(fused: bool, kernels: str) -> str:
    """The way of software whose elementwise kernels are of the library `kernels`, and `fused` or not."""
    return ("compiled" if kernels == "inductor" else "fused") if fused else "eager"


def across_ranks(kind: str, distributed_tensors: bool) -> str:
    """The way where tensor-parallel ranks share the vocabulary (`Habits.distributed_tensors`)."""
    return "sharded" if kind == "eager" and distributed_tensors else kind
