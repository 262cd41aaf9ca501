"""Young's interval between checkpoints: the first-order optimum.

    work = sqrt(2 delta M)      seconds of useful work between checkpoints
delta: blocking seconds per checkpoint; M: mean time between failures. The first-order overhead is delta/work + work/2M,
sqrt(2 delta / M) at its minimum. Right for delta << M only; there it is too long by delta / 3.

Source: J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17, 1974.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lockstep.failures.arrays import Array, floats


def young_s(write_s: ArrayLike, mtbf_s: ArrayLike) -> Array:
    """Useful work between checkpoints, in seconds. Broadcasts."""
    write, mtbf = floats(write_s, mtbf_s)
    return np.asarray(np.sqrt(2 * write * mtbf))


def first_order_overhead_frac(work_s: ArrayLike, write_s: ArrayLike, mtbf_s: ArrayLike) -> Array:
    """Young's overhead: writing plus half an interval lost per failure. Broadcasts."""
    work, write, mtbf = floats(work_s, write_s, mtbf_s)
    return np.asarray(write / work + work / (2 * mtbf))
