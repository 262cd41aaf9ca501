"""Memory of a captured step on a card: the bytes of its tensors when most are held, and what a process takes besides.

    total = (tensors + workspaces) (1 + SLACK_FRAC) + FRAMEWORK_B

with the allocator's slack and the context as in every answer (`memory.py`). Workspaces are those of cuBLAS, which
PyTorch takes from its allocator for the thread of the program and that of the backward pass.

Source of their size: pytorch v2.11, aten/src/ATen/cuda/CublasHandlePool.cpp (parseChosenWorkspaceSize).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from lockstep.base.errors import BadInput
from lockstep.describe.captured import Captured
from lockstep.describe.hardware import Cluster
from lockstep.describe.hardware.card import card_of
from lockstep.price.layout.memory import FRAMEWORK_B, MOMENTS, SLACK_FRAC, Memory

WITHIN = "0.006 % in the median and 1.5 % at worst"
"""How far the peaks of tensors of the 35 steps without a compiler that were measured on one H100 are from their
captures, with the workspaces (`benchmarks/one_gpu.py`)."""
HOPPER = (9, 0)
WORKSPACE_B, WIDE_WORKSPACE_B = 8_519_680, 32 << 20
"""Of one thread: before Hopper, and from it on."""
THREADS = 2


def allocated_B(captured: Captured, cluster: Cluster) -> int:
    """Bytes of tensors at the fullest moment, with the workspaces: what PyTorch counts as allocated."""
    wide = card_of(cluster.device).capability >= HOPPER
    return captured.peak_B + THREADS * (WIDE_WORKSPACE_B if wide else WORKSPACE_B)


def captured_memory(captured: Captured, cluster: Cluster) -> Memory:
    """Bytes of the step by category on a device of `cluster`. The capture is of one device's program."""
    found, inside_B = captured.by_category, allocated_B(captured, cluster)
    return Memory(
        float(found["parameters"]),
        float(found["gradients"]),
        float(found["optimizer"]),
        float(found["activations"]),
        found["buffers"] + inside_B - captured.peak_B + SLACK_FRAC * inside_B + FRAMEWORK_B,
        cluster.device.memory_B,
        moment=MOMENTS.index("update" if captured.peak_operation.phase == "optimizer" else "backward"),
    )


def largest_that_fits(values: Sequence[int], memory: Callable[[int], Memory], most_steps: int) -> int | None:
    """The largest value of an argument whose memory fits, of those that are a step of `values` apart.

    None where the smallest does not. Memory grows with the value, nearly evenly. Raises what `memory` raises, and
    BadInput where memory does not grow, or all of the first `most_steps` fit.
    """
    step = _step(values, memory)

    @cache
    def room_B(steps: int) -> float:
        found = memory(values[0] + steps * step)
        return found.capacity_B - float(found.total_B)

    if room_B(0) < 0:
        return None
    per_step_B = room_B(0) - room_B(1)
    guess = int(room_B(0) / per_step_B) if per_step_B > 0 else most_steps
    if guess >= most_steps:
        raise BadInput("memory hardly grows with it")
    low, high, far = 0, most_steps, 1
    while high - low > 1:
        guess = min(max(guess, low + 1), high - 1)
        low, high = (guess, high) if room_B(guess) >= 0 else (low, guess)
        guess = low + far if high == most_steps else high - far if low == 0 else (low + high) // 2
        far *= 2
    return values[0] + low * step


def _step(values: Sequence[int], memory: Callable[[int], Memory]) -> int:
    """The least step between values that are known: one, or where a pattern repeats only so, that of the captures."""
    try:
        memory(values[-1] + 1)
    except BadInput:
        return values[1] - values[0]
    return 1
