"""Monte Carlo of whole runs: many campaigns at once, one failure of each per round.

A campaign repeats: restart, then work and checkpoints, until the gap between two failures ends. Work done beside a
write (`Pattern.hidden_frac`) is not in that checkpoint. Failures strike work, writes and restarts alike; the next gap
begins when a failure has been noticed. Between two failures nothing is random, so a round of numpy operations moves
all campaigns from one failure to the next: the cost is failures per campaign, not intervals.

Every second of a campaign is useful work that counts in the end, or lost to one of LOSSES:

    checkpoint   work stood still for writes that count in the end
    rollback     work and writes done again: from a failure back to the checkpoint it falls back to
    restart      restarting, also in vain
    detection    nobody had noticed the failure yet
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.errors import BadInput, Infeasible
from lockstep.reliability.arrays import Array
from lockstep.reliability.expected import run_time_s
from lockstep.reliability.laws import GapLaw
from lockstep.reliability.pattern import Pattern
from lockstep.simulate import Sample
from lockstep.units import format_time

LOSSES = ("checkpoint", "rollback", "restart", "detection")
MOST_CAMPAIGNS = 1_000_000
MOST_ROUNDS = 50_000
MOST_INTERVALS = 10**9


@dataclass(frozen=True, eq=False, slots=True)
class Campaigns:
    """Simulated campaigns of the same run, one value each."""

    work_s: float
    wall_s: Array
    checkpoint_s: Array
    rollback_s: Array
    restart_s: Array
    detection_s: Array
    failures: Array
    failures_restarting: Array
    """Of these, how many struck a restart."""
    failures_writing: Array
    """Of these, how many struck while a checkpoint was written."""

    @property
    def overhead(self) -> Sample:
        """Wall time over useful work, minus 1."""
        return Sample(self.wall_s / self.work_s - 1)

    @property
    def goodput(self) -> Sample:
        """Useful work over wall time."""
        return Sample(self.work_s / self.wall_s)

    def losses_frac(self) -> dict[str, float]:
        """Mean share of the wall time that each loss takes; with the goodput they are 1."""
        return {name: float(np.mean(getattr(self, f"{name}_s") / self.wall_s)) for name in LOSSES}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            "campaigns": len(self.wall_s),
            "overhead_frac": self.overhead.mean_s,
            "ci95": list(self.overhead.interval_s()),
            "goodput_frac": self.goodput.mean_s,
            "goodput_ci95": list(self.goodput.interval_s()),
            "losses_frac": self.losses_frac(),
            "mean_wall_s": float(self.wall_s.mean()),
            "p95_wall_s": float(np.quantile(self.wall_s, 0.95)),
            "failures": float(self.failures.mean()),
            "failures_restarting": float(self.failures_restarting.mean()),
            "failures_writing": float(self.failures_writing.mean()),
            "finished_without_failure_frac": float((self.failures == 0).mean()),
        }


def intervals_of(work_s: float, interval_s: float, pattern: Pattern) -> int:
    """Equal intervals that a run of `work_s` is cut into: the nearest number to work_s / interval_s.

    Fewer where a write would not end before the next one begins.
    """
    if not 0 < work_s < math.inf:
        raise BadInput(f"must be above 0 and finite, got {work_s:g} s", "work")
    if not interval_s > 0:
        raise BadInput(f"must be above 0, got {interval_s:g} s", "interval")
    number = max(1.0, work_s / interval_s)
    if number > MOST_INTERVALS:
        raise BadInput(f"{number:.3g} intervals in one run are too many; give a longer interval", "interval")
    # A hair above the quotient, so that 0.3 / 0.1 is three intervals and not two.
    fitting = work_s / pattern.shortest_work_s * (1 + 1e-12) if pattern.shortest_work_s else number + 1
    return max(1, math.floor(min(number + 0.5, fitting)))


def simulate_campaigns(
    pattern: Pattern, work_s: float, interval_s: float, law: GapLaw | None, *, campaigns: int = 1000, seed: int = 0
) -> Campaigns:
    """`campaigns` runs of `work_s` of useful work, a checkpoint every `interval_s` of it.

    Gaps between failures follow `law`; None: nothing fails. No checkpoint after the last interval. Raises BadInput, and
    Infeasible when a run does not come to an end.
    """
    if not 1 <= campaigns <= MOST_CAMPAIGNS:
        raise BadInput(f"must be 1 to {MOST_CAMPAIGNS:,}, got {campaigns}", "campaigns")
    number = intervals_of(work_s, interval_s, pattern)
    if law is not None and not run_time_s(pattern, work_s / number, number, law.mean_s) < MOST_ROUNDS / 2 * law.mean_s:
        raise Infeasible(_endless(work_s / number))
    run = _Run(pattern, work_s / number, number, campaigns)
    gaps, kinds = (np.random.Generator(np.random.PCG64(child)) for child in np.random.SeedSequence(seed).spawn(2))
    for _ in range(MOST_ROUNDS):
        alive = len(run.alive)
        gap_s = np.full(alive, np.inf) if law is None else law.draw(gaps, alive)
        run.advance(gap_s, kinds.random(alive) < pattern.hard_frac if pattern.hard_frac else None)
        if not len(run.alive):
            return run.result(work_s)
    raise Infeasible(_endless(work_s / number))


def _endless(interval_s: float) -> str:
    return (
        f"a run does not end within {MOST_ROUNDS:,} failures: intervals of {format_time(interval_s)}, writes and"
        " restarts are too long for failures this frequent; try shorter intervals, or fewer devices"
    )


class _Run:
    """State of all campaigns; `alive` are the places of those that have not ended."""

    def __init__(self, pattern: Pattern, work_s: float, intervals: int, campaigns: int) -> None:
        self.pattern, self.work_s, self.intervals = pattern, work_s, intervals
        costs_s = np.array(pattern.costs_s)
        self.costs_s = costs_s
        self.blocked_s = np.concatenate(([0.0], np.cumsum((1 - pattern.hidden_frac) * costs_s)))
        self.cycle_s = pattern.every * work_s + self.blocked_s[-1]
        self.restarts_s = np.array(pattern.restarts_s)
        # From the begin of a cycle: when work goes on at each position, and when each checkpoint is written.
        self.begins_s = np.arange(pattern.every) * work_s + self.blocked_s[:-1]
        self.ends_s = self.begins_s + work_s + costs_s
        self.alive = np.arange(campaigns)
        self.saved = np.zeros(campaigns, dtype=np.int64)
        self.restarting_s = np.zeros(campaigns)
        self.from_afar = np.zeros(campaigns, dtype=bool)
        self.wall_s, self.restart_s = np.zeros(campaigns), np.zeros(campaigns)
        self.counts = np.zeros((3, campaigns), dtype=np.int64)

    def advance(self, gap_s: Array, hard: Array | None) -> None:
        """To the next failure of every campaign that is alive, or to its end."""
        at, saved, restart_s = self.alive, self.saved, self.restarting_s
        position = saved % self.pattern.every
        up_s = gap_s - restart_s
        left_s = (self.intervals - saved) * self.work_s + self._blocked(self.intervals - 1) - self._blocked(saved)
        done = up_s >= left_s
        self.restart_s[at] += np.minimum(gap_s, restart_s)
        self.wall_s[at] += np.where(done, restart_s + left_s, gap_s + self.pattern.detection_s)
        if done.any():
            going = ~done
            self.alive, at, saved, position, up_s = (x[going] for x in (at, at, saved, position, up_s))
            self.from_afar = self.from_afar[going]
            hard = None if hard is None else hard[going]
        now, writing = self._reached(saved, position, up_s)
        self.counts[0, at] += 1
        self.counts[1, at] += up_s < 0
        self.counts[2, at] += writing
        self._fall_back(now, hard, up_s < 0)

    def _blocked(self, saved: Any) -> Any:
        """Seconds that work stood still for the first `saved` checkpoints of a run."""
        cycles, position = np.divmod(saved, self.pattern.every)
        return cycles * self.blocked_s[-1] + self.blocked_s[position]

    def _reached(self, saved: Array, position: Array, up_s: Array) -> tuple[Array, Array]:
        """(checkpoints written when the failure strikes, whether it strikes a write)."""
        every = self.pattern.every
        time_s = self.begins_s[position] + np.maximum(up_s, 0.0)
        cycles = np.floor((time_s - self.ends_s[0]) / self.cycle_s)
        within_s = time_s - cycles * self.cycle_s
        index = np.searchsorted(self.ends_s, within_s, side="right") if every > 1 else 1
        written = np.maximum((cycles * every + index).astype(np.int64), position)
        more, next_position = np.divmod(written, every)
        missing_s = more * self.cycle_s + self.ends_s[next_position] - time_s
        now = np.minimum(saved - position + written, self.intervals - 1)
        writing = (up_s >= 0) & (missing_s < self.costs_s[next_position]) & (now < self.intervals - 1)
        return now, writing

    def _fall_back(self, now: Array, hard: Array | None, restarting: Array) -> None:
        """What a failure leaves, and how long the next restart takes."""
        every = self.pattern.every
        self.saved, self.restarting_s = now, self.restarts_s[now % every]
        if hard is None:
            return
        # Until a restart from the last checkpoint of a cycle succeeds, there is nothing nearer to restart from.
        self.from_afar = hard | (self.from_afar & restarting)
        self.saved = np.where(self.from_afar, now - now % every, now)
        self.restarting_s = np.where(self.from_afar, self.pattern.hard_restart_s, self.restarting_s)

    def result(self, work_s: float) -> Campaigns:
        """The campaigns, all at their end; what nothing else explains was done in vain."""
        checkpoint_s = np.full(len(self.wall_s), float(self._blocked(self.intervals - 1)))
        detection_s = self.counts[0] * self.pattern.detection_s
        rollback_s = self.wall_s - work_s - checkpoint_s - self.restart_s - detection_s
        # Rounding of long sums must not show as a loss below 0.
        rollback_s = np.where(self.counts[0] > 0, np.maximum(rollback_s, 0.0), 0.0)
        return Campaigns(work_s, self.wall_s, checkpoint_s, rollback_s, self.restart_s, detection_s, *self.counts)
