"""Kernel work over the parameters and gradients of a layer, which comes with every micro-batch.

Adding gradients up, and what PyTorch's FSDP copies: FSDP2 gathered parameters out of the buffer that they came in, in
every pass that gathers them, and gradients into the one that they leave in, in the format on the wire; FSDP1
gradients alone. Both run between the layers' kernels, not beside them.

torch.autocast casts each parameter once per micro-batch and widens its gradient, 6 bytes each, and adds it to that of
the micro-batches before, 12. FSDP casts what it gathers instead.

Sources: PyTorch, torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py (foreach_all_gather_copy_out,
split_with_sizes_copy; foreach_reduce_scatter_copy_in, chunk_cat) and aten/src/ATen/autocast_mode.h (cached_cast: leaves
that require gradients).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.base.types.saved import FP32_B
from lockstep.describe.workload import LayerKind
from lockstep.price.kernels.clock import MIXED, WIDENED, Work
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.slots import casts
from lockstep.price.kernels.sums import stands_alone, tensors
from lockstep.price.layout import Recipe, sharing_of

INSIDE_FRAC = 0.5
"""Of the traffic of sums inside products, what does not hide behind them: the median of ten products on H100."""
PARAMETER_B, SUM_B = 6.0, 12.0
"""Bytes for each parameter of a cast, and of a sum of two gradients in fp32."""


def states_work(shard: Shard, kind: LayerKind, parameters: Number) -> Passes:
    """Work over so many parameters of a layer on a rank."""
    found = _copies(shard, parameters) + Passes(Work(), _accumulation(shard, kind, parameters))
    if not shard.recipe.habits.autocast:
        return found
    cast, mask = _autocast(shard, parameters, len(tensors(shard, kind))), casts(shard)
    return cast.when(mask) + found.when(np.logical_not(mask))


def _autocast(shard: Shard, parameters: Number, tensors: int) -> Passes:
    """Casts of a layer's parameters and their gradients, and sums over micro-batches."""
    stream, widened = shard.clock.stream, shard.clock.instruction_bound(WIDENED)
    widened_B = widened * PARAMETER_B + SUM_B * _added(shard)
    return Passes(stream(PARAMETER_B * parameters, tensors), stream(widened_B * parameters, 2 * tensors))


def table_work(shard: Shard, ways: Number, looked_up: bool) -> Passes:
    """What the gradient of one of the vocabulary's tables costs with every micro-batch, divided into `ways`.

    It is added in a pass of its own where those of layers are. PyTorch's of a table that is `looked_up` in is dense:
    filled with zeros before tokens add to it (aten/src/ATen/native/cuda/Embedding.cu, embedding_dense_backward_cuda).
    torch.autocast casts the head's matrix as those of layers, and leaves a lookup in fp32.
    """
    recipe, clock, added = shard.recipe, shard.clock, _added(shard)
    if recipe.software.options.fused_accumulation or recipe.adapters is not None:
        return Passes(Work(), Work())
    elements, kernels = shard.model.vocab * shard.model.hidden / ways, added + looked_up
    each_B = looked_up * clock.element_B + _sum_B(shard) * added
    apart = np.logical_not(sharing_of(recipe, shard.grid).scatters)
    found = Passes(Work(), clock.stream(each_B * elements, kernels).when(apart))
    if not recipe.habits.autocast:
        return found
    wide = Passes(Work(), clock.stream((FP32_B + SUM_B * added) * elements, kernels))
    mask = casts(shard)
    return found.when(np.logical_not(mask)) + (wide if looked_up else _autocast(shard, elements, 1)).when(mask)


def _in_one_tensor(recipe: Recipe) -> bool:
    """Whether PyTorch's first FSDP shards, which makes one tensor of a layer's parameters."""
    return recipe.sharding == "any" and recipe.software.kernels == "torch" and recipe.habits.gradients_freed


def _added(shard: Shard) -> Number:
    """Of all micro-batches, those whose gradients are added to others: all but the first where gradients were freed.

    What XLA does with a single micro-batch was not observed, so that its first gradients are priced as sums too.
    """
    if not shard.recipe.habits.gradients_freed or shard.recipe.software.kernels == "xla":
        return 1.0
    return 1.0 - 1.0 / np.maximum(1.0, shard.grid.microbatches(shard.recipe.batch))


def _sum_B(shard: Shard) -> Number:
    """Bytes per parameter of a pass that adds a gradient, with as many more as it takes longer than its bytes.

    A gradient that was scattered comes in the format of the sum, or nearly: its bytes are moved as they are. So are
    gradients of fp16, which Megatron-LM sums in their own format unless told otherwise (megatron/arguments.py).
    """
    recipe, clock, element_B = shard.recipe, shard.clock, shard.clock.element_B
    bare_B = element_B + (4.0 if recipe.habits.converted_gradients else 2.0) * recipe.gradient_B
    one_format = recipe.gradient_B == element_B or recipe.dtype == "fp16"
    if one_format or recipe.software.kernels == "xla":
        return bare_B
    slow_B = clock.instruction_bound(WIDENED) * (element_B + recipe.gradient_B) + 3.0 * recipe.gradient_B
    whole_B = slow_B if recipe.habits.converted_gradients else clock.instruction_bound(MIXED) * bare_B
    return np.where(sharing_of(recipe, shard.grid).scatters, bare_B, whole_B)


def _copies(shard: Shard, parameters: Number) -> Passes:
    """What FSDP copies; adapters' frozen matrices are gathered too, their gradients are few.

    FSDP1's parameters are views of one tensor, so that they are not copied out of it, but their gradients are
    joined to one, which is divided before it leaves (_runtime_utils.py: _reduce_grad, _div_if_needed).
    """
    recipe, clock = shard.recipe, shard.clock
    sharing = sharing_of(recipe, shard.grid)
    if recipe.sharding != "fsdp2":
        joined = _in_one_tensor(recipe) and recipe.adapters is None
        return Passes(
            Work(), clock.stream(joined * 4.0 * clock.element_B * parameters, 2 * joined).when(sharing.scatters)
        )
    gathered = clock.stream(2.0 * recipe.base_B * parameters)
    leaving = Work()
    if recipe.adapters is None:
        leaving = clock.stream((clock.element_B + recipe.wire_B) * parameters).when(sharing.scatters)
    forward, backward = gathered.when(sharing.gathers_forward), gathered.when(sharing.gathers_backward)
    return Passes(forward, backward + leaving)


def _accumulation(shard: Shard, kind: LayerKind, parameters: Number) -> Work:
    """Adding a micro-batch's weight gradients to the accumulated ones.

    A pass of its own reads the new gradient, reads the sum and writes it; one converted first is written and read once
    more. Every tensor is a kernel. Inside the product the sum is read and written in place of the new gradient, and
    norms and biases are left. Gradients that are reduced after every micro-batch are added after it, together; by FSDP
    the part that a rank keeps.
    """
    recipe, clock, added = shard.recipe, shard.clock, _added(shard)
    size_B = _sum_B(shard) * added * parameters
    own = [one for one in tensors(shard, kind) if stands_alone(one)]
    scattered = sharing_of(recipe, shard.grid).scatters
    if recipe.sharding == "fsdp2" or _in_one_tensor(recipe):
        size_B = size_B / np.where(scattered, shard.grid.shard_ranks, 1)
    if not recipe.software.options.fused_accumulation:
        return clock.stream(size_B, added * np.where(scattered, 1, len(own)))
    left = sum(not one.is_matrix for one in own)
    inside = clock.stream(INSIDE_FRAC * (2.0 * recipe.gradient_B - clock.element_B) * parameters, left)
    return clock.stream(size_B).when(scattered) + inside.when(np.logical_not(scattered))
