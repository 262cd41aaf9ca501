"""`Traffic`: seconds of the collectives of one data- or tensor-parallel group, by bytes. The only door to prices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lockstep.collectives import LinkLike, best_time_s, get
from lockstep.collectives.cost import Number


@dataclass(frozen=True, slots=True)
class Traffic:
    """`ranks` members on a `link`; `algorithm` for every collective, or the fastest one when empty."""

    ranks: int
    link: LinkLike
    algorithm: str = "ring"

    def time_s(self, op: str, size_B: Number) -> Number:
        """Seconds of one collective of `size_B` bytes (in the definition of nccl-tests); nothing to send takes none."""
        if self.algorithm:
            time_s = get(op, self.algorithm).price_time_s(self.ranks, size_B, self.link)
        else:
            time_s = best_time_s(op, self.ranks, size_B, self.link)
        return np.where(np.asarray(size_B) > 0, time_s, 0.0)
