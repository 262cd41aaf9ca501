"""Kernel work of norms and of rotary embedding: a kernel each, or PyTorch's operations one after another.

In passes that read or write an element in half precision, so that one in fp32 counts two. A norm of a kernel of its own
must take 2 forward and 3 backward; where a second kernel gives the gradients of its weights (`Habits.norm_kernels`
split), this reads what comes in and what was normed again: 5. As they reduce rows and, backward, columns, they run as
long as more passes at the memory's rate would: medians over the rows of cuDNN (one) and PyTorch (split) in
memory_bound_kernels.csv. Norms of an fp32 copy (converted) are converted to it (3), read wide (2) and written (1);
backward they are run again (6), read wide and narrow (3) for either gradient, written wide (2) and converted back (3).
Where software writes RMSNorm out (`Habits.fused_norms` false), as the modeling files of transformers do:

    forward    converted to fp32 (3), squared (4), mean (2), scaled by its root (4), converted back (3), weight (2)
    backward   weight (2) and its gradient (4), converted (3), scaled (4), gradient of the scale (8), of the mean (2)
               and of the square (14), added to the other way (6), converted back (3)

Rotary embedding takes 2 and 2 in a kernel of its own; written out, two products (4), the halves turned (1) and joined
(2) and a sum (3), and backward 14, as slices are padded with zeros and added. As a product of complex numbers it is
converted to fp32 (3), multiplied (4) and converted back (3) either way, compiled or not: Inductor generates no code for
complex operators and leaves them to PyTorch's kernels. LayerNorm is one kernel in PyTorch. What is written out took
1.32 and 1.2 times these passes (norms) and 1.94 and 1.59 times (rotary) alone on H100 (h100_kernels.csv, medians), and
is priced so.

Sources: PyTorch, aten/src/ATen/native/cuda/layer_norm_kernel.cu (LayerNormBackwardKernelImplInternal) and tools/
autograd/derivatives.yaml (pow, mean, mul, slice); NVIDIA/apex, csrc/layer_norm_cuda_kernel.cu (HostLayerNormGradient);
InternLM/InternEvo, internlm/model/modeling_internlm.py (`norm1(_residual.float())`, dropout_selective_checkpoint);
huggingface/transformers, models/llama/modeling_llama.py, LlamaRMSNorm and apply_rotary_pos_emb; pytorch/torchtitan,
models/llama3/model.py (apply_rotary_emb); PyTorch, torch/_inductor/lowering.py (its warning of complex operators).
"""

from __future__ import annotations

from lockstep.kernels.clock import Work
from lockstep.kernels.shard import Passes, Shard
from lockstep.types.arrays import Number
from lockstep.workload import DENSE, LayerKind, Rotary

NORM, SPLIT_NORM, CONVERTED_NORM, WRITTEN_NORM = (
    (2.3, 3.8, 1, 2),
    (2.9, 8.9, 1, 3),
    (6.0, 17.0, 2, 6),
    (18.0, 46.0, 10, 14),
)
"""Passes forward and backward of one norm, and kernels forward and backward; the last adds what its blocks summed."""
OF_WEIGHT = 4.0
"""Of the last, backward passes for the gradient of its weight, which frozen norms have not."""
KINDS = {"one": NORM, "split": SPLIT_NORM, "converted": CONVERTED_NORM}
ENGINE = "transformer-engine"
ROTARY, WRITTEN_ROTARY, COMPLEX_ROTARY = (2.0, 2.0, 2), (10.0, 14.0, 12), (10.0, 10.0, 6)
NORM_TAKES, ROTARY_TAKES = (1.32, 1.2), (1.94, 1.59)
"""Times as long as their passes that operations written out take, forward and backward."""


def norms(shard: Shard, kind: LayerKind = DENSE) -> Passes:
    """The norms of a layer, one for each block."""
    return _norms(shard, kind.residual_blocks)


def final_norm_work(shard: Shard) -> Passes:
    """The norm before the head, and that of an encoder."""
    return _norms(shard, 2 if shard.model.encoder_layers else 1)


def writes_norms(shard: Shard) -> bool:
    """Whether a norm is several operations of PyTorch."""
    return not shard.recipe.habits.fused_norms and shard.model.norm == "rmsnorm"


def norm_passes(shard: Shard) -> tuple[float, float, int, int]:
    """Passes forward and backward of one norm, and kernels of either."""
    if not writes_norms(shard):
        return KINDS[shard.recipe.habits.norm_kernels]
    (forward, backward, *kernels), takes = WRITTEN_NORM, [shard.clock.instruction_bound(one) for one in NORM_TAKES]
    trained = shard.recipe.adapters is None
    return forward * takes[0], (backward - OF_WEIGHT * (not trained)) * takes[1], kernels[0], kernels[1] - (not trained)


def query_key_norms(shard: Shard, elements: Number) -> Passes:
    """The norms on so many elements of queries and keys."""
    return _over(shard, elements, 1) + Passes(Work(kernels=1), Work(kernels=2))


def _norms(shard: Shard, count: int) -> Passes:
    return _over(shard, shard.loose_tokens * shard.model.hidden, count)


def _over(shard: Shard, elements: Number, count: int) -> Passes:
    """`count` norms over so many elements."""
    forward, backward, there, back = norm_passes(shard)
    if writes_norms(shard):
        return shard.operations(count * elements, forward, backward, count * there, count * back)
    size_B, software = count * elements * shard.clock.element_B, shard.clock.elementwise
    return Passes(software(forward * size_B, count * there), software(backward * size_B, count * back))


def rotary_work(shard: Shard, elements: Number) -> Passes:
    """Rotary embedding of so many elements of queries and keys."""
    habits, engine = shard.recipe.habits, shard.clock.stack.kernels == ENGINE
    if habits.complex_rotary:
        return shard.operations(elements, *COMPLEX_ROTARY, COMPLEX_ROTARY[2])
    if habits.fused_norms and not (engine and _stretched(shard.model.rotary)):
        return shard.elementwise(elements, *ROTARY)
    (forward, backward, kernels), takes = WRITTEN_ROTARY, [shard.clock.instruction_bound(one) for one in ROTARY_TAKES]
    return shard.operations(elements, forward * takes[0], backward * takes[1], kernels, kernels)


def _stretched(rotary: Rotary | None) -> bool:
    """Whether sines and cosines are multiplied by a factor other than one."""
    return rotary is not None and rotary.scaling == "yarn" and rotary.mscale != rotary.mscale_all_dim
