"""DeepSpeed: told which accelerator there is, as it would look for a compiler of kernels; ranks agree with one another.

Source: DeepSpeed 0.19.3, accelerator/real_accelerator.py, ops/op_builder, runtime/zero/utils.py.
"""

from __future__ import annotations

import os
import sys

from lockstep.run.capture.libraries.after import After

AGREE = "deepspeed.runtime.zero.utils", "assert_ints_same_as_other_ranks"
"""Sends numbers of the first rank to the others in the first step, and compares."""


def prepare(notes: list[str]) -> None:
    """Its own variables, and a comparison less."""
    os.environ |= {"DS_ACCELERATOR": "cuda", "DS_IGNORE_CUDA_DETECTION": "1"}
    name, function = AGREE
    sys.meta_path.insert(0, After(name, lambda module: setattr(module, function, lambda ints: None)))
