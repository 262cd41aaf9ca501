"""Clocks of ranks on one scale, rank 0's: ranks that read the same clock agree, others are compared by exchanges.

A rank asks at t1 of its clock, rank 0 hears it at t2 of its own, answers at t3, and the answer is there at t4:

    offset = ((t2 - t1) + (t3 - t4)) / 2        rank 0's clock less the rank's own
    error <= ((t4 - t1) - (t3 - t2)) / 2        half of the round trip; on the way as (there - back) / 2

The exchange with the shortest round trip counts. Clocks of machines also drift apart, so they are compared before and
after a measurement, and read along the straight line between; its error is at most the larger of the two.

Source: D. Mills et al., RFC 5905 (2010), section 8; F. Cristian, "Probabilistic clock synchronization", Distributed
Computing 3 (1989).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.base.units import format_time
from lockstep.run.launch import Rank
from lockstep.run.machine import Sites

LEAST, MOST = 8, 32
"""Exchanges of a pair; the first also waits until rank 0 has time for it."""
LONGEST_S = 0.3
"""After which no further exchange begins, beyond the least."""


@dataclass(frozen=True, slots=True)
class Reading:
    """At `at_ns` of a rank's clock rank 0's was `offset_ns` ahead of it, to within `error_ns`."""

    at_ns: int = 0
    offset_ns: int = 0
    error_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class Alignment:
    """A rank's clock against rank 0's, between a reading before and one after."""

    before: Reading = Reading()
    after: Reading = Reading()

    @property
    def lasted_ns(self) -> int:
        """Between the two readings."""
        return self.after.at_ns - self.before.at_ns

    @property
    def drift_frac(self) -> float:
        """How much faster rank 0's clock runs; 0 for the same clock."""
        return (self.after.offset_ns - self.before.offset_ns) / self.lasted_ns if self.lasted_ns else 0.0

    @property
    def drift_error_frac(self) -> float:
        """How far off the drift may be."""
        return (self.after.error_ns + self.before.error_ns) / self.lasted_ns if self.lasted_ns else 0.0

    @property
    def error_ns(self) -> float:
        """How far off an aligned time may be."""
        return max(self.before.error_ns, self.after.error_ns)

    def on_rank_0(self, times_ns: Array) -> Array:
        """Times of the rank's clock as rank 0's clock shows them; integers of the same shape."""
        drifted = np.rint((times_ns - self.before.at_ns) * self.drift_frac).astype(np.int64)
        return np.asarray(times_ns + self.before.offset_ns + drifted)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "offset_s": self.before.offset_ns / 1e9,
            "error_s": self.error_ns / 1e9,
            "drift_frac": self.drift_frac,
            "drift_error_frac": self.drift_error_frac,
        }


def compare_clocks(rank: Rank, sites: Sites) -> Reading:
    """This rank's clock against rank 0's, now. All ranks call it together."""
    found = Reading()
    for other in sites.strangers():
        if rank.number == 0:
            _answer(rank, other)
        elif rank.number == other:
            found = _ask(rank)
    return found


def said(alignments: Sequence[Alignment]) -> tuple[str, ...]:
    """What a reader must know about the clocks; nothing when all ranks read the same one."""
    error_ns = max(one.error_ns for one in alignments)
    if not error_ns:
        return ()
    within = f"to within {format_time(error_ns / 1e9)} of rank 0's, half the shortest round trip"
    return (f"clocks of other machines read {within}",)


def _ask(rank: Rank) -> Reading:
    import torch
    import torch.distributed as dist

    more = torch.ones(1, dtype=torch.int64, device=rank.device)
    heard = torch.zeros(2, dtype=torch.int64, device=rank.device)
    readings: list[Reading] = []
    until_s = time.monotonic() + LONGEST_S
    while more[0]:
        done = len(readings) + 1
        more[0] = done < LEAST or (done < MOST and time.monotonic() < until_s)
        # Posted before the question leaves, so that the answer need not wait for the notice of it.
        answer = dist.irecv(heard, 0)
        asked_ns = rank.clock.now_ns()
        dist.send(more, 0)
        if answer is not None:
            answer.wait()
        there_ns = rank.clock.now_ns()
        came_ns, left_ns = heard.tolist()
        offset_ns = ((came_ns - asked_ns) + (left_ns - there_ns)) // 2
        round_ns = (there_ns - asked_ns) - (left_ns - came_ns)
        readings.append(Reading((asked_ns + there_ns) // 2, offset_ns, round_ns / 2))
    return min(readings, key=lambda reading: reading.error_ns)


def _answer(rank: Rank, other: int) -> None:
    """Rank 0's side; the next question is awaited before an answer leaves."""
    import torch
    import torch.distributed as dist

    more = torch.ones(1, dtype=torch.int64, device=rank.device)
    stamps = torch.zeros(2, dtype=torch.int64, device=rank.device)
    question = dist.irecv(more, other)
    while question is not None:
        question.wait()
        stamps[0] = rank.clock.now_ns()
        question = dist.irecv(more, other) if more[0] else None
        stamps[1] = rank.clock.now_ns()
        dist.send(stamps, other)
