"""`checkpoint(...)`: how often to save and what a run loses to failures, by formula and by simulation."""

from __future__ import annotations

import math

from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.shown import Shown
from lockstep.base.units import format_time
from lockstep.simulate.failures.expected import run_time_s
from lockstep.simulate.failures.failures import Failures, finish_probability_frac
from lockstep.simulate.failures.intervals import daly_s, exact_s, young_s
from lockstep.simulate.failures.laws import GapLaw
from lockstep.simulate.failures.long_run import LongRun, overhead_curve
from lockstep.simulate.failures.losses import Campaigns, Losses
from lockstep.simulate.failures.pattern import Pattern
from lockstep.simulate.failures.pool import Pool
from lockstep.simulate.failures.simulation import intervals_of, simulate_campaigns
from lockstep.simulate.play import Exponential

MOST_FAILURES = 5e8
"""In all simulated campaigns together: half a minute on one core."""
RUN_S = 60 * 86_400.0
LEAST_INTERVALS = 200
NO_PROGRESS = 1e6


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Checkpoint(Shown):
    """When to save and what is lost. Intervals are seconds of useful work between checkpoints."""

    pattern: Pattern
    mtbf_s: float
    interval_s: float
    """The best interval for the pattern, or the requested one."""
    overhead_frac: float
    """Expected time over useful work, minus 1, of a long run with that interval. Exact for exponential failures."""
    young_s: float
    daly_s: float
    exact_s: float
    """These three for the last (strongest) checkpoint of a cycle alone, its blocking part."""
    curve: tuple[tuple[float, float], ...]
    """(interval_s, overhead_frac) around interval_s."""
    work_s: float
    """Useful work of the run that the following numbers, and the simulation, are about."""
    expected_wall_s: float
    no_failure_frac: float
    losses: Losses
    """By formula, of the run of work_s."""
    simulated: Campaigns | None
    pool: Pool | None
    causes: Failures | None
    """What the failures are composed of, silent corruption apart; None when only their sum is known."""
    assumptions: tuple[str, ...]

    @property
    def long_run(self) -> LongRun:
        """Every expected time of this pattern on these nodes."""
        return LongRun(self.pattern, self.mtbf_s, self.pool)

    def to_dict(self) -> Json:
        """Plain JSON form with the names of the command line."""
        pattern = self.pattern
        return {
            **picked(self, "young_s daly_s exact_s interval_s overhead_frac"),
            "goodput_frac": 1 / (1 + self.overhead_frac),
            "losses_frac": self.losses.fracs(),
            **picked(self, "simulated mtbf_s"),
            "write_s": pattern.costs_s[-1],
            "every": pattern.every,
            "restart_s": pattern.hard_restart_s if pattern.hard_frac else pattern.restarts_s[0],
            "detection_s": pattern.detection_s,
            "async_frac": pattern.hidden_frac,
            "silent_frac": pattern.silent_frac,
            "kept_checkpoints": pattern.kept(self.interval_s),
            "failures": plain(self.causes),
            "pool": plain(self.pool),
            "run": {
                "work_s": self.work_s,
                "intervals": intervals_of(self.work_s, self.interval_s, pattern),
                **picked(self, "expected_wall_s no_failure_frac"),
            },
            "curve": [{"interval_s": work_s, "overhead_frac": overhead} for work_s, overhead in self.curve],
            "assumptions": plain(self.assumptions),
        }


def checkpoint(
    pattern: Pattern,
    mtbf_s: float,
    *,
    interval_s: float | None = None,
    work_s: float | None = None,
    simulate: bool = False,
    law: GapLaw | None = None,
    pool: Pool | None = None,
    causes: Failures | None = None,
    campaigns: int = 1000,
    seed: int = 0,
) -> Checkpoint:
    """The best interval for failures every `mtbf_s`, its cost, and a run of `work_s` of useful work.

    `law` replaces exponential gaps in the simulation; `causes` are kept for the answer; `pool`: nodes with spares and
    repairs, None for replacements that are always there. Raises BadInput, and Infeasible where no run gets anywhere.
    """
    long_run = LongRun(pattern, mtbf_s, pool)
    best_s = long_run.best_s() if interval_s is None else interval_s
    if not best_s > 0 or best_s < pattern.shortest_work_s * (1 - 1e-12):
        raise BadInput(
            f"must be above 0 and at least as long as the hidden part of a write, got {best_s:g} s", "interval"
        )
    overhead = float(long_run.overhead_frac(best_s))
    if not overhead < NO_PROGRESS:
        raise Infeasible(_no_progress(pattern, mtbf_s))
    length_s = max(RUN_S, LEAST_INTERVALS * best_s) if work_s is None else work_s
    number = intervals_of(length_s, best_s, pattern)
    wall_s = long_run.run_time_s(length_s / number, number)
    gaps = Exponential(mtbf_s) if law is None else law
    campaigns_run = None
    if simulate:
        if campaigns * (wall_s / mtbf_s) > MOST_FAILURES:
            raise BadInput(f"{campaigns:,} runs would see more than {MOST_FAILURES:.0e} failures", "campaigns")
        campaigns_run = simulate_campaigns(pattern, length_s, best_s, gaps, pool=pool, campaigns=campaigns, seed=seed)
    blocking_s = (1 - pattern.hidden_frac) * pattern.costs_s[-1]
    work, overheads = overhead_curve(long_run, best_s)
    return Checkpoint(
        pattern=pattern,
        mtbf_s=mtbf_s,
        interval_s=best_s,
        overhead_frac=overhead,
        young_s=float(young_s(blocking_s, mtbf_s)),
        daly_s=float(daly_s(blocking_s, mtbf_s)),
        exact_s=float(exact_s(pattern.costs_s[-1], mtbf_s, pattern.hidden_frac)),
        curve=tuple(pair for pair in zip(work.tolist(), overheads.tolist(), strict=True) if math.isfinite(pair[1])),
        work_s=length_s,
        expected_wall_s=wall_s,
        no_failure_frac=finish_probability_frac(run_time_s(pattern, length_s / number, number, math.inf), mtbf_s),
        losses=long_run.losses(length_s / number, number),
        simulated=campaigns_run,
        pool=pool,
        causes=causes,
        assumptions=tuple(_assumptions(pattern, pool, isinstance(gaps, Exponential))),
    )


def _no_progress(pattern: Pattern, mtbf_s: float) -> str:
    restart_s = max(*pattern.restarts_s, pattern.hard_restart_s)
    return (
        f"failures every {format_time(mtbf_s)} leave no time to get from one checkpoint to the next: a write takes"
        f" {format_time(max(pattern.costs_s))}, a restart {format_time(restart_s)}; make them faster, or use fewer"
        " devices"
    )


def _assumptions(pattern: Pattern, pool: Pool | None, memoryless: bool) -> list[str]:
    said = ["failures strike work, checkpoints and restarts alike, at a constant rate (exponential gaps)"]
    if not memoryless:
        said.append("formulas take exponential gaps of the same mean; only the simulation follows the law given")
    if pool is None:
        said.append("a failed device is replaced within the restart time; the job never shrinks")
    else:
        said.append("repairs take exponential times and run in parallel; the cluster is in service when the run begins")
    if pool is not None and pool.shrinks:
        joining = {"failure": "at the next restart", "checkpoint": "by a restart after the next checkpoint"}
        when = joining.get(pool.grows, "by an immediate restart from the last checkpoint")
        said.append(f"fewer nodes work and fail proportionally less; repaired ones join {when}")
        if not pattern.is_single:
            said.append(
                "the formula assumes that a restart finds the cycle of checkpoints usual for the nodes missing then"
            )
    if pattern.silent_frac:
        said.append("after a corruption all work is lost until it is noticed, a fixed time later")
    if pattern.hidden_frac:
        said.append("work during a hidden write runs at full speed and is not in that checkpoint")
    if pattern.hard_frac:
        said.append("every failure falls back to the last local or the last remote checkpoint, by a fixed share")
    return said
