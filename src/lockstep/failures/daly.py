"""Daly's interval between checkpoints: the optimum to higher order.

    work = sqrt(2 delta M) (1 + sqrt(delta / 2M) / 3 + delta / 18M) - delta      for delta < 2M
         = M                                                                     otherwise
delta: blocking seconds per checkpoint; M: mean time between failures. Restart and detection times do not move it.
Without the last term of the bracket and the minus delta it would be Young's.

Source: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
Computer Systems 22, 2006, equation 37.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lockstep.failures.arrays import Array, floats
from lockstep.failures.young import young_s


def daly_s(write_s: ArrayLike, mtbf_s: ArrayLike) -> Array:
    """Useful work between checkpoints, in seconds. Broadcasts."""
    write, mtbf = floats(write_s, mtbf_s)
    # Beyond delta = 2M the series is not used; capping the ratio keeps an infinite one out of it.
    ratio = np.minimum(write / (2 * mtbf), 1.0)
    series = young_s(write, mtbf) * (1 + np.sqrt(ratio) / 3 + ratio / 9) - write
    return np.where(write < 2 * mtbf, series, mtbf)
