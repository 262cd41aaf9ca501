"""Memory of a captured step on a card: the bytes of its tensors when most are held, and what a process takes besides.

    total = (tensors + workspaces) (1 + SLACK_FRAC) + FRAMEWORK_B

with the allocator's slack and the context as in every answer (`memory.py`). Workspaces are those of cuBLAS, which
PyTorch takes from its allocator for the thread of the program and that of the backward pass.

Source of their size: pytorch v2.11, aten/src/ATen/cuda/CublasHandlePool.cpp (parseChosenWorkspaceSize).
"""

from __future__ import annotations

from lockstep.describe.captured import Captured
from lockstep.describe.hardware import Cluster
from lockstep.describe.hardware.card import card_of
from lockstep.price.layout.memory import FRAMEWORK_B, MOMENTS, SLACK_FRAC, Memory

HOPPER = (9, 0)
WORKSPACE_B, WIDE_WORKSPACE_B = 8_519_680, 32 << 20
"""Of one thread: before Hopper, and from it on."""
THREADS = 2


def captured_memory(captured: Captured, cluster: Cluster) -> Memory:
    """Bytes of the step by category on a device of `cluster`. The capture is of one device's program."""
    found = captured.by_category
    wide = card_of(cluster.device).capability >= HOPPER
    workspaces_B = THREADS * (WIDE_WORKSPACE_B if wide else WORKSPACE_B)
    slack_B = SLACK_FRAC * (captured.peak_B + workspaces_B)
    return Memory(
        float(found["parameters"]),
        float(found["gradients"]),
        float(found["optimizer"]),
        float(found["activations"]),
        found["buffers"] + workspaces_B + slack_B + FRAMEWORK_B,
        cluster.device.memory_B,
        moment=MOMENTS.index("update" if captured.peak_operation.phase == "optimizer" else "backward"),
    )
