"""Times that no protocol explains: a message that takes far longer than larger ones, or far less than smaller ones.

Within one series (one collective, algorithm and number of ranks) a spike is more than SPIKE times slower than both of
the next two sizes, or than the one that is left near the end, or as much faster than both of the two before. A change
of protocol is no spike: what follows it stays slow, or stays fast.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SPIKE = 1.5
"""Assumed: beyond the scatter of medians, below what a foreign process does to a message."""
MOST_FRAC = 1 / 3
"""When more of the times would be spikes, none is: then the times do not grow with the size at all."""


def spikes(series: Sequence[Hashable], sizes_B: Array, times_s: Array) -> Array:
    """Which times are spikes; `series` names the series of every point."""
    found = np.zeros(len(times_s), dtype=bool)
    for name in dict.fromkeys(series):
        here = np.array([i for i, other in enumerate(series) if other == name])
        here = here[np.argsort(sizes_B[here], kind="stable")]
        found[here[_slow(times_s[here])]] = True
        # A usual time must not look fast beside a slow spike.
        here = here[~found[here]]
        found[here[_slow(1 / times_s[here][::-1])[::-1]]] = True
    return found if found.mean() <= MOST_FRAC else np.zeros_like(found)


def _slow(times: Array) -> Array:
    """Which entries are far above both of the next two."""
    later = (times[place + 1 : place + 3] for place in range(len(times)))
    return np.array([len(two) > 0 and times[i] > SPIKE * two.max() for i, two in enumerate(later)], dtype=bool)
