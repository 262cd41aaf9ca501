"""`Nodes`: the nodes of many simulated campaigns: broken, under repair, and how fast each job therefore is."""

from __future__ import annotations

import numpy as np

from lockstep.reliability.arrays import Array
from lockstep.reliability.pattern import Pattern
from lockstep.reliability.pool import Pool, in_service


class Nodes:
    """Broken nodes of every campaign that is alive, drawn at first as at any moment of a long run."""

    def __init__(
        self, pool: Pool, pattern: Pattern, mtbf_s: float, campaigns: int, generator: np.random.Generator
    ) -> None:
        self.pool, self.generator = pool, generator
        share = in_service(pool, pattern, mtbf_s).share_before
        self.broken = generator.choice(len(share), size=campaigns, p=share)
        self.lost, self.shares = (np.array(one) for one in zip(*pool.lost, strict=True))

    @property
    def speed_frac(self) -> Array:
        """Work per second of each campaign, of that on all nodes."""
        return self.pool.speed_frac(self.broken)

    def struck(self, gap_s: Array, noticed_s: Array, going: Array) -> Array:
        """A failure after `gap_s` in every campaign that is `going` on: seconds it then waits for repairs."""
        broken = self.generator.binomial(self.broken[going], np.exp(-gap_s / self.pool.repair_s))
        broken = broken + self.generator.choice(self.lost, size=len(broken), p=self.shares)
        broken = self.generator.binomial(broken, np.exp(-noticed_s / self.pool.repair_s))
        waited_s = np.zeros(len(broken))
        while (waiting := broken > self.pool.most_broken).any():
            waited_s[waiting] += self.generator.exponential(self.pool.repair_s / broken[waiting])
            broken = broken - waiting
        self.broken = broken
        return waited_s
