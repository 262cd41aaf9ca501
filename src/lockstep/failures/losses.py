"""Where the time of a run goes on average: the exact counterpart of the simulation's losses.

    failures    N = E / (M + D)                    every failure costs the up time before it and its detection
    detection   N D
    restart     by the recursion of `expected`, counting restarts only; N M (1 - e^(-R / M)) for one kind of checkpoint
    checkpoint  (1 - f) delta of every write but the last, which is left out: what counts in the end
    rollback    E - work - all of the above
E: expected seconds of the run (`expected.run_time_s`); M, D, R, delta, f as in `exact`. Up time is a Poisson process
that stops with the run, so Wald's identity makes the first two exact for any `Pattern`.

Source: S. M. Ross, Stochastic Processes, 2nd ed. 1996, section 3.3 (Wald's equation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lockstep.failures.expected import RESTARTS, run_time_s
from lockstep.failures.pattern import Pattern


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
