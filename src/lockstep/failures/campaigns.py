"""`Campaigns`: simulated runs of one kind, one value each, and where their time went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.failures.arrays import Array
from lockstep.simulate import Sample

LOSSES = ("checkpoint", "rollback", "restart", "detection", "degraded")
"""What takes time beside work; each is told in `simulation`."""


@dataclass(frozen=True, eq=False, slots=True)
class Campaigns:
    """Simulated campaigns of the same run, one value each."""

    work_s: float
    wall_s: Array
    checkpoint_s: Array
    rollback_s: Array
    restart_s: Array
    detection_s: Array
    degraded_s: Array
    failures: Array
    failures_restarting: Array
    """Of these, how many struck a restart."""
    failures_writing: Array
    """Of these, how many struck while a checkpoint was written."""
    failures_silent: Array
    """Of these, how many were silent corruption."""

    @property
    def overhead(self) -> Sample:
        """Wall time over useful work, minus 1."""
        return Sample(self.wall_s / self.work_s - 1)

    @property
    def goodput(self) -> Sample:
        """Useful work over wall time, of all campaigns together."""
        return self._share(np.full(len(self.wall_s), self.work_s))

    def losses(self) -> dict[str, Sample]:
        """Share of the wall time that each loss takes, of all campaigns together; with the goodput they are 1."""
        return {name: self._share(getattr(self, f"{name}_s")) for name in LOSSES}

    def _share(self, part_s: Array) -> Sample:
        """Mean part over mean wall time, with the spread of the ratio (W. G. Cochran, Sampling Techniques, 1977, 6.4).

        The mean of single ratios is another number: short campaigns would count as much as long ones.
        """
        mean_s = self.wall_s.mean()
        ratio = part_s.mean() / mean_s
        return Sample(ratio + (part_s - ratio * self.wall_s) / mean_s)

    def losses_frac(self) -> dict[str, float]:
        """Means of `losses`."""
        return {name: sample.mean_s for name, sample in self.losses().items()}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            "campaigns": len(self.wall_s),
            "overhead_frac": self.overhead.mean_s,
            "ci95": list(self.overhead.interval_s()),
            "goodput_frac": self.goodput.mean_s,
            "goodput_ci95": list(self.goodput.interval_s()),
            "losses_frac": self.losses_frac(),
            "losses_ci95": {name: list(one.interval_s()) for name, one in self.losses().items()},
            "mean_wall_s": float(self.wall_s.mean()),
            "p95_wall_s": float(np.quantile(self.wall_s, 0.95)),
            "failures": float(self.failures.mean()),
            "failures_restarting": float(self.failures_restarting.mean()),
            "failures_writing": float(self.failures_writing.mean()),
            "failures_silent": float(self.failures_silent.mean()),
            "finished_without_failure_frac": float((self.failures == 0).mean()),
        }
