"""Seconds to hand a micro-batch's activations, or their gradients, to the neighbouring stage.

Each tensor-parallel rank sends its 1/t of the tokens; without sequence parallelism the receivers gather them again (the
scatter-gather optimisation of arXiv 2104.04473, section 4.1). Unpaired, a message waits for what comes the other way
first.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number, Truth, Whole
from lockstep.simulate.parallel.group import Levels, collective_s, send_s


def handover_s(stages: Levels, tensor: Levels, size_B: Number, tp: Whole, split: Truth, paired: bool) -> Number:
    """Seconds of a message of `size_B` that `tp` ranks share, `split` by sequence parallelism or gathered again."""
    gather_s = collective_s("all-gather", tensor, size_B)
    return (1.0 if paired else 2.0) * send_s(stages, size_B / tp) + np.where(split, 0.0, gather_s)
