"""Where the time of a run goes: on average (`Losses`), and in simulated runs of one kind (`Campaigns`).

    failures    N = E / (M + D)                    every failure costs the up time before it and its detection
    detection   N D
    restart     by the recursion of `expected`, counting restarts only; N M (1 - e^(-R / M)) for one kind of checkpoint
    checkpoint  (1 - f) delta of every write but the last, which is left out: what counts in the end
    rollback    E - work - all of the above
E: expected seconds of the run (`expected.run_time_s`); M, D, R, delta, f as in `exact_s`. Up time is a Poisson process
that stops with the run, so Wald's identity makes the first two exact for any `Pattern`.

Source: S. M. Ross, Stochastic Processes, 2nd ed. 1996, section 3.3 (Wald's equation).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.simulate.failures.expected import RESTARTS, run_time_s
from lockstep.simulate.failures.pattern import Pattern
from lockstep.simulate.play import Sample

LOSSES = ("checkpoint", "rollback", "restart", "detection", "degraded")
"""What takes time besides work; `simulation` explains each."""


@dataclass(frozen=True, eq=False, slots=True)
class Campaigns:
    """Simulated runs of one kind, one value each."""

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
        return dict(self._each_loss())

    def _each_loss(self) -> Iterator[tuple[str, Sample]]:
        for name in LOSSES:
            yield name, self._share(getattr(self, f"{name}_s"))

    def _share(self, part_s: Array) -> Sample:
        """Mean part over mean wall time, with the spread of the ratio (W. G. Cochran, Sampling Techniques, 1977, 6.4).

        The mean of single ratios is another number: short campaigns would count as much as long ones.
        """
        mean_s = self.wall_s.mean()
        ratio = part_s.mean() / mean_s
        return Sample(ratio + (part_s - ratio * self.wall_s) / mean_s)

    def losses_frac(self) -> dict[str, float]:
        """Means of `losses`."""
        return {name: sample.mean_s for name, sample in self._each_loss()}

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "campaigns": len(self.wall_s),
            "overhead_frac": self.overhead.mean_s,
            "ci95": list(self.overhead.interval_s()),
            "goodput_frac": self.goodput.mean_s,
            "goodput_ci95": list(self.goodput.interval_s()),
            "losses_frac": self.losses_frac(),
            "losses_ci95": {name: list(one.interval_s()) for name, one in self._each_loss()},
            "mean_wall_s": float(self.wall_s.mean()),
            "p95_wall_s": float(np.quantile(self.wall_s, 0.95)),
            "failures": float(self.failures.mean()),
            "failures_restarting": float(self.failures_restarting.mean()),
            "failures_writing": float(self.failures_writing.mean()),
            "failures_silent": float(self.failures_silent.mean()),
            "finished_without_failure_frac": float((self.failures == 0).mean()),
        }


@dataclass(frozen=True, slots=True)
class Losses:
    """Expected seconds of a run."""

    work_s: float
    checkpoint_s: float
    rollback_s: float
    restart_s: float
    detection_s: float
    failures: float
    """Expected number of interruptions."""
    degraded_s: float = 0.0
    """Waiting for repairs, and work on fewer nodes."""

    @property
    def wall_s(self) -> float:
        """Work and all losses."""
        return self.work_s + math.fsum(self.by_name().values())

    @property
    def goodput_frac(self) -> float:
        """Useful work over wall time."""
        return self.work_s / self.wall_s

    def fracs(self) -> dict[str, float]:
        """Shares of the wall time by the names of `simulation.LOSSES`; with the goodput they are 1."""
        return {name: seconds / self.wall_s for name, seconds in self.by_name().items()}

    def by_name(self) -> dict[str, float]:
        """Seconds by the names of `simulation.LOSSES`."""
        return {
            "checkpoint": self.checkpoint_s,
            "rollback": self.rollback_s,
            "restart": self.restart_s,
            "detection": self.detection_s,
            "degraded": self.degraded_s,
        }


def expected_losses(pattern: Pattern, work_s: float, intervals: int, mtbf_s: float) -> Losses:
    """Losses of a run of `intervals` intervals of `work_s` seconds each, no checkpoint after the last."""
    wall_s = run_time_s(pattern, work_s, intervals, mtbf_s)
    useful_s, checkpoint_s = intervals * work_s, blocked_s(pattern, intervals - 1)
    if math.isinf(mtbf_s):
        return Losses(useful_s, checkpoint_s, 0.0, 0.0, 0.0, 0.0)
    failures = wall_s / (mtbf_s + pattern.mean_detection_s)
    detection_s = failures * pattern.mean_detection_s
    restart_s = run_time_s(pattern, work_s, intervals, mtbf_s, RESTARTS)
    # Rounding must not show as a loss below 0.
    rollback_s = max(0.0, wall_s - useful_s - checkpoint_s - restart_s - detection_s)
    return Losses(useful_s, checkpoint_s, rollback_s, restart_s, detection_s, failures)


def blocked_s(pattern: Pattern, checkpoints: int) -> float:
    """Seconds that work stands still for the first `checkpoints` checkpoints of a run."""
    cycles, position = divmod(checkpoints, pattern.every)
    written_s = cycles * math.fsum(pattern.costs_s) + math.fsum(pattern.costs_s[:position])
    return (1 - pattern.hidden_frac) * written_s
