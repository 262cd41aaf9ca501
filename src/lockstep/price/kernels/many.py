"""Kernel work of calls that take many tensors at once, as torch's optimizers and its clipping do.

A kernel takes chunks of CHUNK numbers, no more than BLOCKS of them and no more tensors than TENSORS says for the lists
that it reads or writes, so that the lists decide how many are launched. Bytes take MULTI_TENSOR as long, as in a
described update (`optimizer.py`).

Source: PyTorch 2.13, aten/src/ATen/native/cuda/MultiTensorApply.cuh (multi_tensor_apply), the limits of arguments of
four kilobytes; builds for CUDA 13 of recent releases take 2,240 chunks instead, which launch a seventh of the kernels.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from lockstep.describe.captured import Operation
from lockstep.price.kernels.clock import Clock, Work
from lockstep.price.kernels.optimizer import MULTI_TENSOR

CHUNK, BLOCKS, TENSORS = 65536, 320, (110, 64, 48, 36, 30)
LISTS = {"add_.List": 2, "sub_.List": 2, "copy_.default": 2, "lerp_.Scalar": 2, "lerp_.List": 3, "mul_.List": 2,
         "div_.List": 2, "maximum_.List": 2, "add.List": 2, "sub.List": 2, "mul.List": 2, "div.List": 2,
         "addcmul_.Scalar": 3, "addcdiv_.Scalar": 3, "addcdiv_.ScalarList": 3}  # fmt: skip
"""Lists that calls read, where they are more than the one that is written."""
SAME = {"addcmul_.Scalar": 1}
"""Of them, those that are another one of the same call: all of torch's optimizers square the gradient so."""
FUSED = {"_fused_adam": (5, 3), "_fused_sgd": (3, 2), "_fused_adagrad": (4, 2)}
"""Lists that a fused update reads, the step's counts too, and that it writes (torch/optim/adam.py, sgd.py)."""


def many_work(one: Operation, sizes_B: list[int], clock: Clock) -> Work:
    """The work of a call of many tensors with so many bytes each."""
    name = one.name.removeprefix("aten.").removeprefix("_foreach_")
    read_B, made_B = sum(sizes_B[: one.reads]), sum(sizes_B[one.reads :])
    fused = next((lists for key, lists in FUSED.items() if name.startswith(key)), None)
    in_place = name.partition(".")[0].endswith("_")
    if fused:
        lists, written = fused
        counts = name.startswith(("_fused_adam", "_fused_adagrad"))
        moved_B, depth = read_B * (1.0 + written / (lists - counts)), lists - counts
    else:
        lists = LISTS.get(name, 1)
        moved_B = read_B * (1.0 - SAME.get(name, 0) / lists) + (made_B or in_place * read_B / lists)
        depth = lists + (not in_place and not name.startswith("norm"))
    elements = [prod(shape) for shape, _ in one.tensors()[: one.reads // lists]]
    slow = clock.instruction_bound(MULTI_TENSOR) * clock.device.efficiency.optimizer_factor
    return clock.stream(moved_B * slow, launches(elements, depth) + name.startswith("norm"))


def launches(elements: Iterable[int], depth: int) -> int:
    """Kernels that take lists of tensors of so many `elements`, `depth` lists at a time."""
    found = tensors = blocks = 0
    for count in elements:
        chunks = -(-count // CHUNK)
        tensors += 1
        while blocks + chunks >= BLOCKS:
            found, chunks = found + 1, chunks - (BLOCKS - blocks)
            # What is left of the tensor is the first of the next kernel.
            tensors, blocks = int(chunks > 0), 0
        blocks += chunks
        if tensors == TENSORS[depth - 1] and blocks:
            found, tensors, blocks = found + 1, 0, 0
    return found + (blocks > 0)
