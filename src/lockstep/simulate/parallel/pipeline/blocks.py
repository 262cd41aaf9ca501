"""Orders of two chunks in a V that repeat one block of passes, with weight gradients where devices wait anyway.

A block says when each device starts F of chunk 0, F of chunk 1, I of chunk 1 and I of chunk 0 of one micro-batch, where
every pass takes 1. The blocks of m micro-batches follow one another every 6: the work of two chunks. How long a block
keeps its activations sets the memory (Qi et al. 2024, arXiv 2405.15362, section 3). W goes where a device waits, or
where it holds as much as it may; so does the warm-up close up, and so the passes after the last F ("squeezing",
section 3.3).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.types.arrays import Number, Truth
from lockstep.simulate.parallel.pipeline.filling import Filling
from lockstep.simulate.parallel.pipeline.schedule import Order

PERIOD = 6
PASSES = (("F", 0), ("F", 1), ("I", 1), ("I", 0))


def repeated(block: Sequence[Sequence[int]], microbatches: int, most: int) -> Order:
    """The order of m blocks; `block[s]` has the starts of PASSES on device s, which holds at most `most` chunks."""
    lanes = []
    for starts in block:
        each = [(at_s + PERIOD * i, step, i, chunk) for at_s, (step, chunk) in zip(starts, PASSES, strict=True)
                for i in range(microbatches)]  # fmt: skip
        lanes.append([(step, i, chunk) for _, step, i, chunk in sorted(each)])
    unit_s = dict.fromkeys("FIW", np.ones((len(block), 2)))
    return Filling(lanes, unit_s, 0.0, 1.0, most).play()


def enough(stages: Number, microbatches: Number, chunks: Number) -> Truth:
    """Whether there are micro-batches to repeat the block until every device holds what it says."""
    fills: Truth = np.greater(microbatches, stages)
    return fills & np.greater(chunks, 0)
