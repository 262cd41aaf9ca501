"""Seconds of the optimizer step on the device: memory traffic over the parameters that a rank updates.

Reads gradient, master and moments, writes master, moments and the half-precision parameter, and reads the gradients
once more for the global norm. Around it, except in programs that XLA compiles whole, gradients are scaled in place by
what clips them (2), filled with zeros where they are not freed (1), and the master is read once more to be copied to
half precision: 50 bytes for a parameter with AdamW. Megatron-LM's own timers on V100 give 43 to 82
(bigscience_v100_megatron_step_breakdown.csv, optimizer, in fp16, whose gradients are copied besides). torch's
multi-tensor kernels (`Habits.foreach_update`) pass over states more often. Muon also orthogonalises every matrix: 5
Newton-Schulz steps of products m x n by n x m, m x m by m x m and m x m by m x n, at most 30 m FLOPs per element with
m <= hidden, at the rate of large products and shared by the ranks that share the states. Offloaded states are updated
by the host: `host.py`.

Of a captured step each call of many tensors is priced for itself (`many_work`). A kernel takes chunks of CHUNK numbers,
no more than BLOCKS of them and no more tensors than TENSORS says for as many lists as it reads and writes.

Sources: Megatron-LM, megatron/optimizer (unscale, clip_grads.py: multi_tensor_scale; _copy_main_params_to_model_params;
zero_grad_buffer), and what stacks.toml says of others; PyTorch 2.13, aten/src/ATen/native/cuda/MultiTensorApply.cuh
(multi_tensor_apply, limits of arguments of 4 kB; builds for CUDA 13 have 32 kB there, and launch a seventh).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.describe.captured import Operation
from lockstep.describe.workload import RankParameters
from lockstep.price.kernels.clock import Clock, Work
from lockstep.price.layout import LayoutGrid, Recipe
from lockstep.price.layout.sharing import divides_states, in_buckets
from lockstep.simulate.parallel.data.local import OUTER_UPDATE_B

FOREACH_PASSES = 20.0
"""Reads and writes of a moment's width per parameter by torch's multi-tensor AdamW: decay 2, both moments 3 + 2 + 3,
root 2, its scale 2, epsilon 2, update 4 (torch/optim/adam.py, _multi_tensor_adam)."""
MULTI_TENSOR = 1.13
"""Times as long as their bytes that kernels over many tensors take: torch's AdamW 1.13 and clipping 1.17 alone on H100
(h100_kernels.csv, adamw.foreach and clip), both together 1.12 to 1.13 in twenty steps; its fused AdamW 1.15."""
CHUNK, BLOCKS, TENSORS = 65536, 320, (110, 64, 48, 36, 30)
_TWO = "add_.List sub_.List mul_.List div_.List maximum_.List copy_.default lerp_.Scalar add.List sub.List mul.List"
_THREE = "lerp_.List addcmul_.Scalar addcdiv_.Scalar addcdiv_.ScalarList"
LISTS = dict.fromkeys(_TWO.split(), 2) | dict.fromkeys(_THREE.split(), 3)
"""Lists that calls of many tensors read, where they are more than the one that is written."""
SQUARED = "addcmul_.Scalar"
"""The call of which two lists are the same: all of torch's optimizers square the gradient so (torch/optim/adam.py)."""
FUSED = {"_fused_adam": (4, 1, 3), "_fused_sgd": (3, 0, 2), "_fused_adagrad": (3, 1, 2)}
"""Lists that an update in one kernel reads, those of them that count steps, and those that it writes."""
CLIPPING_PASSES = 3.0
"""Of a gradient's width: the norm reads, clipping reads and writes (torch/nn/utils/clip_grad.py)."""
BUCKET_PASSES = 4.0
"""A gradient is read and written into its bucket, and once more on its way back."""


def optimizer_s(clock: Clock, grid: LayoutGrid, recipe: Recipe, parameters: RankParameters, hidden: int) -> Number:
    """Seconds of one update on a rank that holds `parameters` of a model of width `hidden`."""
    matrix, other = updated(recipe, grid, parameters)
    products = matrix * recipe.states.matmul_flops_factor * hidden
    rate = clock.matmul_peak_flops * clock.device.efficiency.matmul_max_frac
    takes = 1.0 if recipe.software.kernels == "xla" else clock.instruction_bound(MULTI_TENSOR)
    moved_s = clock.stream(takes * (updated_B(recipe, matrix, other) + _around_B(recipe) * (matrix + other))).stream_s
    return clock.device.efficiency.optimizer_factor * (moved_s + products / rate)


def bucketing_s(clock: Clock, grid: LayoutGrid, recipe: Recipe, parameters: RankParameters) -> Number:
    """Seconds in which gradients are copied into buckets before they are reduced, and back after it.

    Sources: InternLM/InternEvo, internlm/solver/optimizer/hybrid_zero_optim.py, _reduce_and_copy, unflatten_and_copy;
    `Habits.gradient_buckets`.
    """
    apart = in_buckets(recipe, grid)
    each_B = np.where(apart, recipe.gradient_B, recipe.wire_B if recipe.sharding == "internevo" else 0.0)
    return clock.stream(BUCKET_PASSES * each_B * parameters.total_elems).stream_s


def outer_update_s(clock: Clock, grid: LayoutGrid, recipe: Recipe, parameters: RankParameters) -> Number:
    """Seconds of the update between groups that train apart, on average over the steps between."""
    matrix, other = updated(recipe, grid, parameters)
    return clock.stream((matrix + other) * OUTER_UPDATE_B).stream_s / recipe.local_steps


def updated(recipe: Recipe, grid: LayoutGrid, parameters: RankParameters) -> tuple[Number, Number]:
    """(matrix, other) elements that a rank with `parameters` updates: its shard where states are divided."""
    divided = divides_states(recipe, grid)
    shard, expert_shard = np.where(divided, grid.shard_ranks, 1), np.where(divided, grid.expert_shard_ranks, 1)
    return parameters.matrix_elems / shard + parameters.expert_elems / expert_shard, parameters.other_elems / shard


def updated_B(recipe: Recipe, matrix: Number, other: Number) -> Number:
    """Bytes that an update of so many elements reads and writes."""
    states = recipe.states
    if recipe.habits.foreach_update and states.passing_B:
        each_B = FOREACH_PASSES * states.passing_B + CLIPPING_PASSES * recipe.gradient_B
        copied_B = recipe.parameter_B if recipe.habits.working_copy and states.master_B else 0.0
        return (matrix + other) * (each_B + copied_B)
    return sum(
        elems * (2.0 * state_B + 2.0 * recipe.gradient_B + recipe.parameter_B)
        for elems, state_B in ((matrix, states.matrix_B), (other, states.other_B))
    )


def _around_B(recipe: Recipe) -> float:
    """Bytes per parameter of what precedes and follows an update that is one kernel."""
    states = recipe.states
    if recipe.software.kernels == "xla" or (recipe.habits.foreach_update and states.passing_B):
        return 0.0
    passes = CLIPPING_PASSES - 1.0 + (0.0 if recipe.habits.gradients_freed else 1.0)
    return passes * recipe.gradient_B + (states.master_B if recipe.habits.working_copy else 0.0)


def many_work(one: Operation, sizes_B: list[int], clock: Clock) -> Work:
    """The work of a call of many tensors; `sizes_B`: bytes of each that it reads, and then of each that it gives."""
    name = one.name.removeprefix("aten.").removeprefix("_foreach_")
    lists, depth, moved_B = _fused(one, name, sizes_B) or _foreach(one, name, sizes_B)
    elements = [prod(shape) for shape, _ in one.tensors()[: one.reads // lists]]
    slow = clock.instruction_bound(MULTI_TENSOR) * clock.device.efficiency.optimizer_factor
    # A norm adds up what its chunks give in a kernel of its own.
    return clock.stream(moved_B * slow, launches(elements, depth) + name.startswith("norm"))


def _foreach(one: Operation, name: str, sizes_B: list[int]) -> tuple[int, int, float]:
    """Lists that a call reads, lists of its kernels, and bytes that these move."""
    lists, in_place = LISTS.get(name, 1), name.partition(".")[0].endswith("_")
    read_B, made_B = sum(sizes_B[: one.reads]), sum(sizes_B[one.reads :])
    moved_B = read_B * (1.0 - (name == SQUARED) / lists) + (made_B or in_place * read_B / lists)
    return lists, lists + (not in_place and not name.startswith("norm")), moved_B


def _fused(one: Operation, name: str, sizes_B: list[int]) -> tuple[int, int, float] | None:
    """The same of an update in one kernel, whose counts of steps are single numbers; None of other calls."""
    found = next((lists for key, lists in FUSED.items() if name.startswith(key)), None)
    if found is None:
        return None
    read, counts, written = found
    return read + counts, read, sum(sizes_B[: one.reads]) * (1.0 + written / read)


def launches(elements: Iterable[int], depth: int) -> int:
    """Kernels that take lists of tensors of so many `elements`, `depth` lists at a time."""
    found = tensors = blocks = 0
    for count in elements:
        chunks, tensors = -(-count // CHUNK), tensors + 1
        while blocks + chunks >= BLOCKS:
            found, chunks = found + 1, chunks - (BLOCKS - blocks)
            # What is left of the tensor is the first of the next kernel.
            tensors, blocks = int(chunks > 0), 0
        blocks += chunks
        if tensors == TENSORS[depth - 1] and blocks:
            found, tensors, blocks = found + 1, 0, 0
    return found + (blocks > 0)
