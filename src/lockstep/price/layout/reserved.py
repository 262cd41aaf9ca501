"""What PyTorch's allocator holds of a device, which tools such as nvidia-smi show: more than its tensors need.

    allocated = (total - FRAMEWORK_B) / (1 + SLACK_FRAC)
    reserved  = min(allocated (1 + k), capacity - FRAMEWORK_B)     k: KEPT_FRAC; SEGMENTS_FRAC with expandable segments

Freed blocks stay with the allocator, which gives them back when one cannot be had otherwise: what it holds where there
is room says little of whether a run fits, and no run holds more than there is. KEPT_FRAC is between the medians of two
sources that publish both figures, 1.26 over 139 fine-tunes (fms-acceleration on A100, 1.0 to 1.65) and 1.24 over 239
ranks (BigScience's Megatron on V100, 1.06 to 1.40). SEGMENTS_FRAC is fitted to 20 peaks of torchtitan, whose script
turns expandable segments on.

Source: `python tools/fit/reserved.py`; PyTorch, CUDA semantics, memory management.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number

KEPT_FRAC = 0.25
SEGMENTS_FRAC = 0.15


def kept_frac(kernels: str, expandable_segments: bool) -> float:
    """k of software with these kernels; 0 for programs that XLA compiles, which have no such allocator."""
    if kernels == "xla":
        return 0.0
    return SEGMENTS_FRAC if expandable_segments else KEPT_FRAC


def reserved_B(allocated_B: Number, room_B: float, kept_frac: float) -> Number:
    """Bytes that the allocator holds at most, of tensors of `allocated_B` on a device with `room_B` for them."""
    return np.maximum(allocated_B, np.minimum(allocated_B * (1.0 + kept_frac), room_B))
