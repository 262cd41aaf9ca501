"""Monte Carlo of whole runs: many campaigns at once, one failure of each per round.

A campaign repeats: restart, then work and checkpoints, until the gap between two failures ends. Work done beside a
write (`Pattern.hidden_frac`) is not in that checkpoint. Failures strike work, writes and restarts alike; the next gap
begins when a failure has been noticed. Between two failures nothing is random, so a round of numpy operations moves
all campaigns from one failure to the next: the cost is failures per campaign, not intervals.

Every second of a campaign is useful work that counts in the end, or lost to one of LOSSES:

    checkpoint   work stood still for writes that count in the end
    rollback     work and writes done again: from a failure back to the checkpoint it falls back to
    restart      restarting, also in vain
    detection    nobody had noticed the failure, or the corruption, yet
    degraded     waiting for repairs, and what kept work took longer on fewer nodes than on all (`pool.Pool`)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.types.arrays import Array, Floats, Number
from lockstep.base.units import format_time
from lockstep.simulate.failures.expected import run_time_s
from lockstep.simulate.failures.growth import AT_FAILURE, AT_ONCE
from lockstep.simulate.failures.laws import GapLaw
from lockstep.simulate.failures.losses import Campaigns
from lockstep.simulate.failures.pattern import Pattern
from lockstep.simulate.failures.pool import Nodes, Pool

MOST_CAMPAIGNS = 1_000_000
MOST_ROUNDS = 50_000
MOST_INTERVALS = 10**9


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
    pattern: Pattern, work_s: float, interval_s: float, law: GapLaw | None, *, pool: Pool | None = None,
    campaigns: int = 1000, seed: int | np.random.SeedSequence = 0,
) -> Campaigns:  # fmt: skip
    """`campaigns` runs of `work_s` of useful work, a checkpoint every `interval_s` of it.

    Gaps between failures follow `law`; None means no failures. `pool`: the nodes, already in service when a run begins;
    None means that failed nodes are replaced within the restart. There is no checkpoint after the last interval. Raises
    BadInput, and Infeasible when a run does not end.
    """
    if not 1 <= campaigns <= MOST_CAMPAIGNS:
        raise BadInput(f"must be 1 to {MOST_CAMPAIGNS:,}, got {campaigns}", "campaigns")
    number = intervals_of(work_s, interval_s, pattern)
    if law is not None and not run_time_s(pattern, work_s / number, number, law.mean_s) < MOST_ROUNDS / 2 * law.mean_s:
        raise Infeasible(_endless(work_s / number))
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    generators = [np.random.Generator(np.random.PCG64(child)) for child in root.spawn(4)]
    nodes = None
    if pool is not None and law is not None:
        nodes = Nodes(pool, pattern, law.mean_s, campaigns, work_s / number, generators[3])
    run = _Run(pattern, work_s / number, number, campaigns, nodes)
    for _ in range(MOST_ROUNDS):
        run.advance(*_drawn(pattern, law, len(run.alive), generators))
        if not len(run.alive):
            return run.result(work_s)
    raise Infeasible(_endless(work_s / number))


def _drawn(
    pattern: Pattern, law: GapLaw | None, alive: int, generators: list[np.random.Generator]
) -> tuple[Array, Array | None, Array | None]:
    """(gap, whether the failure after it is hard, whether it is silent) of every campaign."""
    gaps, hard, silent, _ = generators
    return (
        np.full(alive, np.inf) if law is None else law.draw(gaps, alive),
        hard.random(alive) < pattern.hard_frac if pattern.hard_frac else None,
        silent.random(alive) < pattern.silent_frac if pattern.silent_frac else None,
    )


def _endless(interval_s: float) -> str:
    return (
        f"a run does not end within {MOST_ROUNDS:,} failures: intervals of {format_time(interval_s)}, writes and"
        " restarts are too long for failures this frequent; try shorter intervals, or fewer devices"
    )


class _Run:
    """State of all campaigns; `alive` are the places of those that have not ended."""

    def __init__(self, pattern: Pattern, work_s: float, intervals: int, campaigns: int, nodes: Nodes | None) -> None:
        self.pattern, self.work_s, self.intervals, self.nodes = pattern, work_s, intervals, nodes
        self.costs_s = np.array(pattern.costs_s)
        self.blocked_s = np.concatenate(([0.0], np.cumsum((1 - pattern.hidden_frac) * self.costs_s)))
        self.restarts_s = np.array(pattern.restarts_s)
        self.alive = np.arange(campaigns)
        self.saved = np.zeros(campaigns, dtype=np.int64)
        self.restarting_s = np.zeros(campaigns)
        self.from_afar = np.zeros(campaigns, dtype=bool)
        self.slower_s = np.zeros(campaigns)
        self.rest_s = np.full(campaigns, np.nan)
        self.wall_s, self.restart_s, self.detection_s, self.degraded_s = np.zeros((4, campaigns))
        self.counts = np.zeros((4, campaigns), dtype=np.int64)

    def advance(self, gap_s: Array, hard: Array | None, silent: Array | None) -> None:
        """To the next failure or planned restart of every campaign that is alive, or to its end."""
        at, saved, restart_s = self.alive, self.saved, self.restarting_s
        speed = np.ones(len(at)) if self.nodes is None else self.nodes.speed_frac
        length_s = self.work_s / speed
        position = saved % self.pattern.every
        gap_s, planned, first_s = self._planned(gap_s, speed, length_s)
        up_s = gap_s - restart_s
        left_s = (self.intervals - saved) * length_s + self._blocked(self.intervals - 1) - self._blocked(saved)
        done = up_s >= left_s
        self.restart_s[at] += np.minimum(gap_s, restart_s)
        self.wall_s[at] += np.where(done, restart_s + left_s, gap_s)
        # A restart that waited for a checkpoint finds it written, whatever rounding says.
        waited_s = np.where(planned, 1e-9 * length_s, 0.0)
        now, writing = self._reached(saved, position, np.where(done, 0.0, up_s + waited_s), length_s)
        now = np.where(done, self.intervals, now)
        if self.nodes is not None:
            self._slow_down(at, saved, now, length_s - self.work_s)
        going = ~done
        if self.nodes is not None:
            self.nodes.repaired(gap_s[going], None if first_s is None else first_s[going], going)
        if done.any():
            self.alive, at, up_s, now, writing, planned = (x[going] for x in (at, at, up_s, now, writing, planned))
            self.from_afar, self.slower_s, self.rest_s = (
                x[going] for x in (self.from_afar, self.slower_s, self.rest_s)
            )
            hard, silent = (None if one is None else one[going] for one in (hard, silent))
        failed = ~planned
        self._count(at[failed], (up_s < 0)[failed], writing[failed], None if silent is None else silent[failed])
        self._notice(at, silent, failed)
        self._fall_back(at, now, None if hard is None else hard & failed, up_s < 0)

    def _planned(self, gap_s: Array, speed: Array, length_s: Array) -> tuple[Array, Array, Array | None]:
        """(seconds until something stops each campaign, whether it is a planned restart, when the first repair comes).

        Fewer nodes fail less often: a gap is longer by 1 / speed, and what a planned restart leaves of it is kept.
        """
        gap_s = np.where(np.isnan(self.rest_s), gap_s, self.rest_s) / speed
        if self.nodes is None or self.nodes.pool.grows == AT_FAILURE:
            return gap_s, np.zeros(len(gap_s), dtype=bool), None
        first_s = self.nodes.first_repair_s()
        event_s = first_s if self.nodes.pool.grows == AT_ONCE else self._next_checkpoint_s(first_s, length_s)
        planned = event_s < gap_s
        self.rest_s = np.where(planned, (gap_s - np.where(planned, event_s, 0.0)) * speed, np.nan)
        return np.where(planned, event_s, gap_s), planned, first_s

    def _next_checkpoint_s(self, after_s: Array, length_s: Array) -> Array:
        """When the first checkpoint after `after_s` is written (there is one kind); never where the run ends first."""
        hidden_s = self.pattern.hidden_frac * self.costs_s[0]
        each_s = length_s + self.costs_s[0] - hidden_s
        begin_s = self.restarting_s + hidden_s
        number = np.maximum(np.ceil((np.where(np.isfinite(after_s), after_s, 0.0) - begin_s) / each_s), 1.0)
        there = np.isfinite(after_s) & (self.saved + number < self.intervals)
        return np.where(there, begin_s + number * each_s, np.inf)

    def _slow_down(self, at: Array, saved: Array, now: Array, longer_s: Array) -> None:
        """Every interval kept took `longer_s` more than on all nodes; its sum of this cycle may yet be undone."""
        self.degraded_s[at] += (now - saved) * longer_s
        here, before = now // self.pattern.every, saved // self.pattern.every
        since_s = np.where(here > before, 0.0, self.slower_s)
        self.slower_s = since_s + np.where(here > before, now % self.pattern.every, now - saved) * longer_s

    def _count(self, at: Array, restarting: Array, writing: Array, silent: Array | None) -> None:
        self.counts[0, at] += 1
        self.counts[1, at] += restarting
        self.counts[2, at] += writing
        if silent is not None:
            self.counts[3, at] += silent

    def _notice(self, at: Array, silent: Array | None, failed: Array) -> None:
        """Nothing useful happens until a failure is noticed and enough nodes are there."""
        noticed_s = np.full(len(at), self.pattern.detection_s)
        if silent is not None:
            noticed_s[silent] = self.pattern.silent_delay_s
        at, noticed_s = at[failed], noticed_s[failed]
        self.detection_s[at] += noticed_s
        self.wall_s[at] += noticed_s
        if self.nodes is not None:
            waited_s = self.nodes.struck(noticed_s, failed)
            self.degraded_s[at] += waited_s
            self.wall_s[at] += waited_s

    def _blocked(self, saved: Any) -> Any:
        """Seconds that work stood still for the first `saved` checkpoints of a run."""
        cycles, position = np.divmod(saved, self.pattern.every)
        return cycles * self.blocked_s[-1] + self.blocked_s[position]

    def _reached(self, saved: Array, position: Array, up_s: Array, length_s: Array) -> tuple[Array, Array]:
        """(checkpoints written when the failure strikes, whether it strikes a write).

        From the begin of a cycle: work goes on at position * length + blocked, and checkpoint j is written one length
        and its own cost later.
        """
        every = self.pattern.every
        cycle_s = every * length_s + self.blocked_s[-1]
        time_s = position * length_s + self.blocked_s[position] + np.maximum(up_s, 0.0)
        cycles = np.floor((time_s - length_s - self.costs_s[0]) / cycle_s)
        index = 1 if every == 1 else self._written_in_cycle(time_s - cycles * cycle_s, length_s)
        written = np.maximum((cycles * every + index).astype(np.int64), position)
        more, next_position = np.divmod(written, every)
        missing_s = more * cycle_s + self._ends_s(next_position, length_s) - time_s
        now = np.minimum(saved - position + written, self.intervals - 1)
        writing = (up_s >= 0) & (missing_s < self.costs_s[next_position]) & (now < self.intervals - 1)
        return now, writing

    def _written_in_cycle(self, time_s: Array, length_s: Array) -> Array:
        """Checkpoints of a cycle that are written `time_s` after its begin, at the speed of each campaign."""
        written = np.empty(len(time_s), dtype=np.int64)
        for one_s in np.unique(length_s):
            here = length_s == one_s
            written[here] = np.searchsorted(self._ends_s(np.arange(self.pattern.every), one_s), time_s[here], "right")
        return written

    def _ends_s(self, position: Array, length_s: Number) -> Floats:
        """When the checkpoint at each position is written, from the begin of its cycle."""
        ends_s: Floats = (position + 1) * length_s + self.blocked_s[position] + self.costs_s[position]
        return ends_s

    def _fall_back(self, at: Array, now: Array, hard: Array | None, restarting: Array) -> None:
        """What a failure leaves, and how long the next restart takes."""
        every = self.pattern.every
        self.saved, self.restarting_s = now, self.restarts_s[now % every]
        if hard is None:
            return
        # Until a restart from the last checkpoint of a cycle succeeds, there is nothing nearer to restart from.
        self.from_afar = hard | (self.from_afar & restarting)
        self.saved = np.where(self.from_afar, now - now % every, now)
        # Work that is lost after all took no longer for the nodes away: it is done again.
        self.degraded_s[at] -= np.where(self.from_afar, self.slower_s, 0.0)
        self.slower_s = np.where(self.from_afar, 0.0, self.slower_s)
        self.restarting_s = np.where(self.from_afar, self.pattern.hard_restart_s, self.restarting_s)

    def result(self, work_s: float) -> Campaigns:
        """The campaigns, all at their end; what nothing else explains was done in vain."""
        checkpoint_s = np.full(len(self.wall_s), float(self._blocked(self.intervals - 1)))
        named_s = work_s + checkpoint_s + self.restart_s + self.detection_s + self.degraded_s
        # Rounding of long sums must not show as a loss below 0.
        rollback_s = np.where(self.counts[0] > 0, np.maximum(self.wall_s - named_s, 0.0), 0.0)
        return Campaigns(
            work_s, self.wall_s, checkpoint_s, rollback_s, self.restart_s, self.detection_s, self.degraded_s,
            *self.counts,
        )  # fmt: skip
