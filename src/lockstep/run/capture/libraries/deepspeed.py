"""DeepSpeed: told which accelerator there is, as it would look for a compiler of kernels; ranks agree with one another.

Its engine reduces gradients when a backward pass has ended, and unscales, clips and gathers around the update. The
first are a phase of their own, as Python launches them and not the pass; the others are of the update.

Source: DeepSpeed 0.19.3, accelerator/real_accelerator.py, ops/op_builder, runtime/zero/utils.py, runtime/engine.py.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType

from lockstep.describe.captured import REDUCTION
from lockstep.run.capture.libraries.after import After
from lockstep.run.capture.record import Record

AGREE = "deepspeed.runtime.zero.utils", "assert_ints_same_as_other_ranks"
"""Sends numbers of the first rank to the others in the first step, and compares."""


ENGINE = "deepspeed.runtime.engine"
PHASES = {"_backward_epilogue": REDUCTION, "allreduce_gradients": REDUCTION, "step": "optimizer"}
"""Of what methods of its engine do."""


def prepare(notes: list[str]) -> None:
    """Its own variables, a comparison less, and the phases of its engine."""
    os.environ |= {"DS_ACCELERATOR": "cuda", "DS_IGNORE_CUDA_DETECTION": "1"}
    name, function = AGREE
    sys.meta_path.insert(0, After(name, lambda module: setattr(module, function, lambda ints: None)))
    sys.meta_path.insert(0, After(ENGINE, _phases))


def _phases(module: ModuleType) -> None:
    for name, phase in PHASES.items():
        run = getattr(module.DeepSpeedEngine, name, None)
        if run is not None:
            setattr(module.DeepSpeedEngine, name, Record.during(phase, run))
