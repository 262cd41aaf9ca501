"""What becomes of the momentum buffers of the workers when their parameters are averaged.

    keep       each worker goes on with its own
    average    all go on with the mean: one more vector to send per round
    reset      all start again from zeros
Source: J. Wang et al., "SlowMo: improving communication-efficient distributed SGD with slow momentum", ICLR 2020,
section 2 and appendix B (strategies for the buffers of the base optimiser).
"""

from __future__ import annotations

from typing import Any

from lockstep.errors import UnknownName
from lockstep.methods.local.averaging import mean_of

Array = Any

BUFFER_POLICIES = ("keep", "average", "reset")


def after_averaging(buffers: Array, policy: str) -> Array:
    """Buffers of all workers, stacked along the first axis, for the next round."""
    if policy not in BUFFER_POLICIES:
        raise UnknownName("buffer policy", policy, BUFFER_POLICIES)
    if policy == "keep":
        return buffers
    return 0.0 * buffers + mean_of(buffers) if policy == "average" else 0.0 * buffers
