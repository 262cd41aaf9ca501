"""Kernel work of the cross entropy: passes over the logits, by how the software computes it (`Recipe.cross_entropy`).

A pass reads or writes every logit of a rank's part once, in units of half-precision elements, so that one over fp32
counts two. They are kernels of PyTorch or of a compiler, whatever software the layers are of. Forward and backward:

    eager      converted to fp32 (3), log-softmax, which reads three times and writes (8); backward zeros filled (2),
               its gradient, which reads the incoming one twice, its own output, and writes (8), converted back (3):
               torch's cross entropy, a kernel after another
    sharded    converted to fp32 (3), maximum (2), subtracted (4), exponential (4), sum (2), subtracted (4); backward
               zeros filled (2), exponential (4), added (6), scaled (4), converted back (3): DTensor's, of a rank's part
    in-place   converted to fp32 (3), maximum (2), subtracted (4), exponential (4), sum (2), divided (4); backward
               scaled (4), converted back (3): Megatron's vocabulary-parallel loss, a kernel after another
    copied     as in-place, on a copy of the fp32 logits (4): BigScience's
    upcast     converted to fp32 (3), read once by one kernel (2); backward read and written (4), converted back (3)
    in-parts   converted to fp32 with the maximum (3), subtracted, exponential and sum (6), divided (4); backward as
               in place (7): Megatron's --cross-entropy-loss-fusion before 2026, which compiles one part after another
    fused      read twice (2) and its gradient written over it (1); backward scaled (2): one kernel of Transformer
               Engine or Liger
    compiled   read twice (2); backward read and its gradient written (2): what torch.compile makes of a loss
    half       FlashAttention's kernel takes 3; the one program that has it, llm-foundry, computes two training metrics
               besides, each a cross entropy of its own, for 17 more
    watched    as upcast, and what InternEvo's AccPerplex computes of fp32 logits: a loss (2), copied (4), its maximum
               twice and where it is (6), subtracted (4), exponential (4), sum (2)
    chunked    as fused, a few tokens at a time
    returned   as eager: what the training loop holds besides moves no further bytes
    pieces     as fused, an eighth of the tokens at a time (torchtune's CEWithChunkedOutputLoss)

Sources: NVIDIA/Megatron-LM, megatron/mpu/cross_entropy.py of 2021 and core/tensor_parallel/cross_entropy.py since,
gpt_model.py (`output.float()`) and core/fusions/fused_cross_entropy.py; NVIDIA/TransformerEngine, pytorch/triton/
cross_entropy.py; bigscience-workshop/Megatron-DeepSpeed, megatron/mpu/cross_entropy.py
(`vocab_parallel_logits.clone()`, pull request 155); InternLM/InternEvo, internlm/model/metrics.py, and
train/training_internlm.py (output_to_fp32); EleutherAI/gpt-neox, megatron/model/gpt2_model.py, cross_entropy;
PyTorch, aten/src/ATen/native/cuda/SoftMax.cu (cunn_SoftMaxForward and Backward, rows too long for shared memory) and
torch/distributed/tensor/parallel/loss.py (_log_softmax, _nll_loss_and_log_softmax_backward).
"""

from __future__ import annotations

import numpy as np

from lockstep.kernels.shard import Passes, Shard
from lockstep.layout.losses import across_ranks
from lockstep.types.arrays import Number

PASSES = {
    "eager": (11.0, 13.0, 5),
    "sharded": (19.0, 19.0, 12),
    "in-place": (19.0, 7.0, 10),
    "copied": (23.0, 7.0, 11),
    "upcast": (5.0, 7.0, 3),
    "in-parts": (13.0, 7.0, 7),
    "fused": (3.0, 2.0, 3),
    "compiled": (2.0, 2.0, 3),
    "half": (9.0, 11.0, 5),
    "watched": (27.0, 7.0, 12),
    "chunked": (3.0, 2.0, 3),
    "returned": (11.0, 13.0, 5),
    "pieces": (3.0, 2.0, 24),
}
"""Passes forward and backward, and kernels of either."""
TAKEN = 1.11
"""Times as long as its bytes that a kernel of a loss takes: the mean of what was measured on H100 (`products.py`)."""


def loss_work(shard: Shard, logits: Number) -> Passes:
    """Work of the cross entropy over so many `logits` of a rank."""
    kind = shard.recipe.loss_kind
    ways = PASSES[kind], PASSES[across_ranks(kind, shard.recipe.habits.copies)]
    forward, backward, kernels = (np.where(shard.grid.tp > 1, far, near) for near, far in zip(*ways, strict=True))
    size_B, stream = logits * shard.clock.element_B * TAKEN, shard.clock.stream
    return Passes(stream(size_B * forward, kernels), stream(size_B * backward, kernels))
