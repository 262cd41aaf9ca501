"""`Pattern`: what is saved after every interval, what it costs, and what a failure falls back to.

A cycle of checkpoints repeats; the last one of a cycle is the strongest. Position j = checkpoints of the cycle taken.

    single        one checkpoint; asynchronous when a share `hidden_frac` of its writing hides behind work
    two levels    local, local, ..., remote: a share of the failures can use the local ones, the others the last remote
    incremental   delta, delta, ..., full: a restart reads the last full one and every delta since

A share `silent_frac` of the failures is silent corruption. The job goes on for `silent_delay_s` before somebody notices
and falls back to the last checkpoint from before; whatever fails meanwhile was worthless anyway. So a corruption is a
failure whose detection takes that long, and a run is over when its end is known to be clean. Enough checkpoints must be
kept to reach back (`Pattern.kept`).

Source of two levels: E. Gelenbe, "A model of information recovery using the technique of multiple checkpoints", 1976;
A. Moody et al., "Design, modeling, and evaluation of a scalable multi-level checkpointing system", SC 2010.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array

MOST_POSITIONS = 1000


def floats(*given: ArrayLike) -> tuple[Array, ...]:
    """Every argument [...] as an array of doubles [...]."""
    return tuple(np.asarray(one, dtype=np.float64) for one in given)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A cycle of checkpoints and the way back after a failure."""

    costs_s: tuple[float, ...]
    """Seconds each checkpoint of the cycle takes to write."""
    restarts_s: tuple[float, ...]
    """Seconds to restart at each position, from the last checkpoint written."""
    hidden_frac: float = 0.0
    """Share of the writing that hides behind work: during a write, work goes on at this rate."""
    detection_s: float = 0.0
    """From a failure until somebody notices."""
    hard_frac: float = 0.0
    """Share of the failures that lose all but the last checkpoint of a cycle."""
    hard_restart_s: float = 0.0
    """Seconds to restart after those."""
    silent_frac: float = 0.0
    """Share of the failures that are silent corruption: noticed late, and back to before they struck."""
    silent_delay_s: float = 0.0
    """From a corruption until somebody notices; all work in between is lost, its checkpoints with it."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.costs_s) <= MOST_POSITIONS or len(self.restarts_s) != len(self.costs_s):
            raise BadInput(f"a cycle has 1 to {MOST_POSITIONS} checkpoints and a restart time for each position")
        for name, times_s in (
            ("write", self.costs_s),
            ("restart", (*self.restarts_s, self.hard_restart_s)),
            ("detection", (self.detection_s,)),
            ("silent_delay", (self.silent_delay_s,)),
        ):
            if not all(0 <= time_s < math.inf for time_s in times_s):
                raise BadInput("a time must be finite and not negative", name)
        for name, frac in (
            ("async", self.hidden_frac),
            ("local_frac", 1 - self.hard_frac),
            ("silent_mtbf", self.silent_frac),
        ):
            if not 0 <= frac <= 1:
                raise BadInput(f"must be from 0 to 1, got {frac:g}", name)

    @property
    def every(self) -> int:
        """Checkpoints in a cycle."""
        return len(self.costs_s)

    @property
    def mean_detection_s(self) -> float:
        """Mean time until a failure of either kind is noticed; expected times depend on nothing else."""
        return (1 - self.silent_frac) * self.detection_s + self.silent_frac * self.silent_delay_s

    @property
    def is_single(self) -> bool:
        """Whether every checkpoint is the same, and any failure can use the last one."""
        return self.every == 1 and not self.hard_frac

    def kept(self, work_s: float) -> int:
        """Checkpoints to keep, `work_s` apart, so that one from before a corruption is left when it is noticed.

        At most silent_delay / (work + blocking write) + 1 are written meanwhile, and a clean one must be older.
        """
        if not self.silent_frac:
            return 1
        return math.floor(self.silent_delay_s / (work_s + (1 - self.hidden_frac) * min(self.costs_s))) + 2

    @property
    def shortest_work_s(self) -> float:
        """Work per interval below which a write would not end before the next one begins."""
        return self.hidden_frac * max(self.costs_s)


def single(write_s: float, restart_s: float = 0.0, detection_s: float = 0.0, hidden_frac: float = 0.0) -> Pattern:
    """The same checkpoint every time."""
    return Pattern((write_s,), (restart_s,), hidden_frac, detection_s)


def two_level(
    local_s: float, remote_s: float, every: int, local_frac: float, *, local_restart_s: float = 0.0,
    remote_restart_s: float = 0.0, detection_s: float = 0.0, hidden_frac: float = 0.0,
) -> Pattern:  # fmt: skip
    """`every` - 1 local checkpoints and one remote, which takes remote_s in all; local ones serve `local_frac`."""
    _check_every(every)
    # Right after a remote checkpoint there is nothing local to restart from but what the remote one left behind.
    return Pattern(
        (local_s,) * (every - 1) + (remote_s,), (local_restart_s,) * every, hidden_frac, detection_s, 1 - local_frac,
        remote_restart_s,
    )  # fmt: skip


def incremental(
    full_s: float, delta_s: float, every: int, *, restart_s: float = 0.0, read_delta_s: float | None = None,
    detection_s: float = 0.0, hidden_frac: float = 0.0,
) -> Pattern:  # fmt: skip
    """`every` - 1 deltas and one full checkpoint; a restart takes restart_s and read_delta_s per delta to replay.

    Replaying a delta takes as long as writing it when nothing else is given.
    """
    _check_every(every)
    replay_s = delta_s if read_delta_s is None else read_delta_s
    restarts = tuple(restart_s + position * replay_s for position in range(every))
    return Pattern((delta_s,) * (every - 1) + (full_s,), restarts, hidden_frac, detection_s)


def _check_every(every: int) -> None:
    if not 1 <= every <= MOST_POSITIONS:
        raise BadInput(f"must be 1 to {MOST_POSITIONS} checkpoints in a cycle, got {every}", "every")
