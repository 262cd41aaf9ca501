"""`Nodes`: the nodes of many simulated campaigns: broken, under repair, and how fast each job therefore is."""

from __future__ import annotations

import math

import numpy as np

from lockstep.failures.arrays import Array
from lockstep.failures.growth import AT_FAILURE
from lockstep.failures.pattern import Pattern
from lockstep.failures.pool import Pool, in_service


class Nodes:
    """Broken nodes of every campaign that is alive, drawn at first as at any moment of a long run."""

    def __init__(
        self, pool: Pool, pattern: Pattern, mtbf_s: float, campaigns: int, work_s: float, generator: np.random.Generator
    ) -> None:
        self.pool, self.generator = pool, generator
        share = in_service(pool, pattern, mtbf_s, work_s if pool.grows != AT_FAILURE else math.nan).share_before
        self.broken = generator.choice(len(share), size=campaigns, p=share)
        self.lost, self.shares = (np.array(one) for one in zip(*pool.lost, strict=True))

    @property
    def speed_frac(self) -> Array:
        """Work per second of each campaign, of that on all nodes."""
        return self.pool.speed_frac(self.broken)

    def first_repair_s(self) -> Array:
        """When a node is back that a job without all of its nodes misses; never where it misses none."""
        waited_s = self.generator.exponential(self.pool.repair_s / np.maximum(self.broken, 1))
        return np.where(self.speed_frac < 1, waited_s, np.inf)

    def repaired(self, after_s: Array, first_s: Array | None, going: Array) -> None:
        """Campaigns that are `going` on after `after_s`, the first repair at `first_s` where it was drawn."""
        broken = self.broken[going]
        if first_s is None:
            self.broken = self.generator.binomial(broken, np.exp(-after_s / self.pool.repair_s))
            return
        came, missed = first_s <= after_s, np.isfinite(first_s)
        since_s = np.where(missed, np.where(came, after_s - first_s, 0.0), after_s)
        self.broken = self.generator.binomial(np.where(came, broken - 1, broken), np.exp(-since_s / self.pool.repair_s))

    def struck(self, noticed_s: Array, failed: Array) -> Array:
        """A failure in campaigns that `failed`: seconds each then waits for repairs."""
        broken = self.broken[failed] + self.generator.choice(self.lost, size=int(failed.sum()), p=self.shares)
        broken = self.generator.binomial(broken, np.exp(-noticed_s / self.pool.repair_s))
        waited_s = np.zeros(len(broken))
        while (waiting := broken > self.pool.most_broken).any():
            waited_s[waiting] += self.generator.exponential(self.pool.repair_s / broken[waiting])
            broken = broken - waiting
        self.broken[failed] = broken
        return waited_s
