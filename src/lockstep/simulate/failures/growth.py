"""Gaps of a job on a `Pool`: what happens between two restarts with k nodes away, for every policy of growing.

A gap begins with a restart R and then takes l = work / v_k + (1 - f) delta per interval; its m-th checkpoint is written
at t_m = R + f delta + m l. Failures strike at the rate a = v_k / M, the first of k repairs comes at b = k / r.

    failure      nothing but a failure ends a gap                                            Mean 1 / a
    at once      the first repair does too, and work since the last checkpoint is done again      1 / (a + b)
    checkpoint   the first checkpoint after the first repair does: nothing is lost
                 mean (1 - e^(-a t_1)) / a + (1 - e^(-a l)) / a  e^(-(a + b) t_1) / (1 - e^(-(a + b) l))
Checkpoints kept: sum over m of e^(-c t_m) with c = a, or a + b at once; e^(-a t_1) + sum over m > 1 of
e^(-a t_m - b t_(m-1)) at a checkpoint. No node is missed while spares last (v_k = 1): then failures alone end a gap.

Nodes come back in whole jobs here: replicas of one node, and one kind of checkpoint. Source: our own; a race of
exponential times, see `pool`.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.simulate.failures.pattern import Pattern

POLICIES = AT_FAILURE, AT_CHECKPOINT, AT_ONCE = ("failure", "checkpoint", "at-once")
POINTS = 96
"""Of the the Gauss-Legendre rule: exact to 1e-12 for gaps of a dozen times between failures."""


@dataclass(frozen=True, eq=False, slots=True)
class Gaps:
    """Gaps by number of broken nodes at their begin."""

    mean_s: Array
    kept: Array
    """Mean number of checkpoints written."""
    restarting_s: Array
    failing: Array
    """P(k -> j): a failure ends the gap, and strikes with j nodes broken."""
    growing: Array
    """P(k -> j): a planned restart ends it with j broken."""


@dataclass(frozen=True, eq=False, slots=True)
class _Race:
    """Rates and times of the gaps of every state, in the symbols of the module."""

    repair_s: float
    restart_s: float
    lead_s: float
    """R + f delta."""
    length_s: Array
    ends_per_s: Array
    """a."""
    returns_per_s: Array
    """b, 0 where no node is missed."""

    @property
    def either_per_s(self) -> Array:
        """a + b."""
        return self.ends_per_s + self.returns_per_s

    @property
    def growing(self) -> list[int]:
        """States that grow."""
        return [int(k) for k in np.flatnonzero(self.returns_per_s)]


def grown_gaps(
    pattern: Pattern, grows: str, repair_s: float, mtbfs_s: Array, speed_frac: Array, failing: Array, work_s: float
) -> Gaps:
    """Gaps of a job that grows by planned restarts. `failing`: with failures only, which holds at full speed.

    `mtbfs_s`, `speed_frac` [states], by broken nodes; `failing` [states, states].

    Raises BadInput for a cycle of different checkpoints.
    """
    if not pattern.is_single:
        raise BadInput("a job that grows before a failure needs one kind of checkpoint, not a cycle of several", "grow")
    hidden_s, restart_s = pattern.hidden_frac * pattern.costs_s[0], pattern.restarts_s[0]
    returns = np.where(speed_frac < 1, np.arange(len(mtbfs_s)) / repair_s, 0.0)
    length_s = work_s / speed_frac + pattern.costs_s[0] - hidden_s
    race = _Race(repair_s, restart_s, restart_s + hidden_s, length_s, 1 / mtbfs_s, returns)
    return _at_once(race, failing.copy()) if grows == AT_ONCE else _at_checkpoint(race, failing.copy())


def _at_once(race: _Race, failing: Array) -> Gaps:
    growing, either = np.zeros_like(failing), race.either_per_s
    for k in race.growing:
        failing[k] = 0.0
        failing[k, k], growing[k, k - 1] = race.ends_per_s[k] / either[k], race.returns_per_s[k] / either[k]
    kept = np.exp(-either * race.lead_s) / np.expm1(either * race.length_s)
    return Gaps(1 / either, kept, -np.expm1(-either * race.restart_s) / either, failing, growing)


def _at_checkpoint(race: _Race, failing: Array) -> Gaps:
    growing, ends, size = np.zeros_like(failing), race.ends_per_s, len(failing)
    first_s = race.lead_s + race.length_s
    # Sum over m >= 1 of e^(-(a + b) t_m): checkpoints behind which nothing has happened yet.
    quiet = np.exp(-race.either_per_s * first_s) / -np.expm1(-race.either_per_s * race.length_s)
    for k in race.growing:
        failing[k] = 0.0
        for span_s, chance in ((first_s[k], 1.0), (race.length_s[k], quiet[k])):
            failing[k] += chance * _struck(k, size, span_s, ends[k], race.repair_s)
            written = chance * np.exp(-ends[k] * span_s)
            growing[k] += written * _broken(k, size, np.array([span_s]), race.repair_s)[0]
        growing[k, k] = 0.0
    kept = np.exp(-ends * first_s) + quiet * np.exp(-ends * race.length_s)
    mean_s = (-np.expm1(-ends * first_s) + quiet * -np.expm1(-ends * race.length_s)) / ends
    return Gaps(mean_s, kept, -np.expm1(-ends * race.restart_s) / ends, failing, growing)


def _struck(k: int, size: int, until_s: float, rate_per_s: float, repair_s: float) -> Array:
    """P(a failure strikes before `until_s`, with j of k nodes still broken), for j < size."""
    points, weights = _rule()
    times_s = until_s * (points + 1) / 2
    density = weights * until_s / 2 * rate_per_s * np.exp(-rate_per_s * times_s)
    return np.asarray(density @ _broken(k, size, times_s, repair_s))


@cache
def _rule() -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(POINTS)


def _broken(k: int, size: int, times_s: Array, repair_s: float) -> Array:
    """P(j of k nodes still broken after each of `times_s`), shape (times, size): a binomial."""
    number = np.arange(k + 1)
    log_factorials = np.append(0.0, np.cumsum(np.log(np.arange(1, k + 1))))
    ways = log_factorials[k] - log_factorials - log_factorials[::-1]
    broken = np.exp(-times_s / repair_s)[:, np.newaxis]
    chances = np.zeros((len(times_s), size))
    chances[:, : k + 1] = (
        np.exp(ways) * broken**number * (-np.expm1(-times_s / repair_s)[:, np.newaxis]) ** (k - number)
    )
    return chances
