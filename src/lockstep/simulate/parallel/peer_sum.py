"""A sum of few bytes over the ranks of one node, which read one another's memory instead of a library's channels.

    at once     l + 2 L + (n - 1) S / B             every rank reads all of what the others have
    in parts    l + 3 L + 2 (n - 1) / n S / B       every rank reads and sums its part of it, then the others' sums

Symbols: l a launch, n ranks, S bytes, L latency of the link, which ranks wait at every barrier, B its rate. Engines do
so for the sums of decoding. Source: vLLM, csrc/custom_all_reduce.cuh (one-shot and two-shot).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.simulate.parallel.group import Levels


def peer_sum_s(group: Levels, size_B: Number, launch_s: float) -> Number:
    """Seconds of the sum of `size_B` bytes, the faster of both ways; infinite where ranks are on several nodes."""
    (ranks, latency_s, bandwidth_Bps, *_), *beyond = group
    if any(int(level[0]) > 1 for level in beyond):
        return np.inf
    message_s = size_B / bandwidth_Bps
    once_s = 2 * latency_s + (ranks - 1) * message_s
    parts_s = 3 * latency_s + 2 * (ranks - 1) / ranks * message_s
    found: Number = launch_s + np.minimum(once_s, parts_s)
    return found
