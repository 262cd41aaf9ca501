"""Local steps: workers synchronise every K steps only (local SGD), so that slow and fast steps of a worker average out.

    round = max over workers of (x_1 + ... + x_K) + communication;   a step is a K-th of it
Exact for normal times: the sum of K is normal with mean K m and deviation sqrt(K) d, so the excess over the mean falls
like 1 / sqrt(K). Pays with K - 1 steps between averages; persistent slowness stays: the slow worker's sum is slow too.

Source: S. U. Stich, "Local SGD converges fast and communicates little", ICLR 2019.
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.base.types.progress import Progress
from lockstep.simulate.failures.stragglers.mitigation import Mitigation, Paid, check_count, draw
from lockstep.simulate.play import Constant, Law, Normal, unseen

MOST_STEPS = 100_000
FEWEST_ROUNDS = 100
MOST_NUMBERS = 500_000_000
"""Random times drawn: some seconds."""


@dataclass(frozen=True, slots=True)
class Local(Mitigation):
    """All workers agree every `steps` steps."""

    steps: int

    def check(self, workers: int) -> None:
        """At least one step, and no more than can be simulated."""
        check_count("local", self.steps, 1, MOST_STEPS + 1)
        if self.steps * workers * FEWEST_ROUNDS > MOST_NUMBERS:
            raise BadInput(f"local:{self.steps} on {workers} workers is too much to simulate; use fewer", "mitigation")

    def comm_share(self) -> float:
        """One synchronisation per round."""
        return 1 / self.steps

    def paid(self, workers: int) -> Paid:
        """Steps on parameters that the others do not share."""
        return Paid(stale_steps=float(self.steps - 1), steps_between_averages=self.steps)

    def expected_s(self, law: Law, workers: int) -> float | None:
        """Exact for normal and constant times, for one worker, and for one step."""
        if self.steps == 1 or workers == 1:
            return law.expected_max_s(workers)
        if isinstance(law, Normal):
            spread_s = law.std_s / math.sqrt(self.steps)
            return Normal(law.mean_s, spread_s).expected_max_s(workers)
        return law.mean_s if isinstance(law, Constant) else None

    def steps_s(
        self,
        law: Law,
        factor: Array,
        comm_s: float,
        numbers: int,
        generator: np.random.Generator,
        progress: Progress = unseen,
    ) -> tuple[Array, Array]:
        """Independent rounds, per step."""
        rounds = max(FEWEST_ROUNDS, numbers // (self.steps * len(factor)))
        total_s = np.zeros((rounds, len(factor)))
        for step in range(self.steps):
            progress(step, self.steps)
            total_s += draw(law, factor, generator, rounds)
        per_step_s = (total_s.max(axis=1) + comm_s) / self.steps
        return per_step_s, per_step_s
