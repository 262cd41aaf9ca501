"""`LateRank`: one rank of a program made late on purpose, as a program that says so.

    delay    added to each of its computations; in a program that only communicates, a computation `late` of that time
             before each of its sends
    factor   on the time of its computations, as `Noise.slowdown` of the simulator

The program that results is simulated and run like any other, so prediction and measurement have the same straggler.

`find_late`: the late rank of a measured timeline, by what its work took and not by what anybody says.

    excess    what a rank's computations took (`program.working_s`), measured less expected, less the median of all
              ranks: what slows all ranks is nobody's lateness

The late rank is the one whose excess is at least LEAST_FRAC of the makespan and TIMES_NEXT that of any other, in most
runs. Who waited cannot tell: waiting is handed on from neighbour to neighbour, and hides in the bubbles of a pipeline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json, picked
from lockstep.base.units import parse_number, parse_time_s
from lockstep.simulate.program import COLUMNS, Kind, Program, ProgramBuilder, Timeline, waits_s, working_s

LABEL = "late"
LEAST_FRAC = 0.1  # assumed: below this the jitter of a busy machine looks the same
TIMES_NEXT = 2.0  # assumed


@dataclass(frozen=True, slots=True)
class LateRank:
    """Which rank is late, and how much."""

    rank: int
    delay_s: float = 0.0
    factor: float = 1.0

    def applied(self, program: Program) -> Program:
        """The program with this rank late. Raises BadInput for a rank or a factor that the program has no use for."""
        if not 0 <= self.rank < program.ranks:
            raise BadInput(f"rank {self.rank} is not one of 0 to {program.ranks - 1}")
        computes = (program.kind == Kind.COMPUTE) & (program.duration_s > 0)
        if computes.any():
            columns = {name: program.columns[name] for name in COLUMNS}
            mine = computes & (program.rank == self.rank)
            longer_s = np.where(mine, program.duration_s * self.factor + self.delay_s, program.duration_s)
            same = np.arange(len(program))
            return _rebuilt(program, columns | {"duration_s": longer_s}, same, same)
        if self.factor != 1:
            raise BadInput("the program has no computation that a factor could slow down; use a time, such as 2:50ms")
        return self._before_sends(program)

    def _before_sends(self, program: Program) -> Program:
        """The program with a computation before each of the rank's sends, on the lane of the send."""
        sends = np.flatnonzero((program.kind == Kind.SEND) & (program.rank == self.rank))
        inserted = sends + np.arange(len(sends))
        kept = np.setdiff1d(np.arange(len(program) + len(sends)), inserted)
        delay = {"kind": Kind.COMPUTE, "rank": self.rank, "duration_s": self.delay_s}
        columns = {
            name: np.insert(program.columns[name], sends, delay.get(name, default))
            for name, (_, default) in COLUMNS.items()
        }
        columns["stream"][inserted] = program.stream[sends]
        columns["label"][inserted] = (*program.names, LABEL).index(LABEL)
        first = kept.copy()
        first[sends] = inserted
        return _rebuilt(program, columns, kept, first)


def _rebuilt(program: Program, columns: dict[str, Array], place: Array, first: Array) -> Program:
    """A program of these columns: operation i of `program` is number `place[i]`, what it waits for `first[i]` does."""
    builder = ProgramBuilder(program.ranks, program.streams)
    for text in (*program.names, LABEL):
        builder.name(text)
    builder.extend(**columns)
    heads = np.repeat(np.arange(len(program)), np.diff(program.after_start))
    builder.depend(first[heads], place[program.after])
    return builder.build()


def parse_late(text: str) -> LateRank:
    """`2:50ms` is rank 2 late by 50 ms, `2:1.5x` rank 2 computing 1.5 times as long. Raises BadInput."""
    rank, _, amount = text.partition(":")
    if not rank.strip().isdecimal() or not amount.strip():
        raise BadInput(
            f"{text!r} is not a straggler; write rank and delay, such as 2:50ms, or rank and factor, such as 2:1.5x"
        )
    if amount.strip().endswith("x"):
        factor = parse_number(amount.strip()[:-1])
        if factor < 1:
            raise BadInput(f"a straggler's factor is at least 1, got {amount!r}")
        return LateRank(int(rank), factor=factor)
    return LateRank(int(rank), delay_s=parse_time_s(amount))


@dataclass(frozen=True, slots=True)
class FoundLate:
    """The rank that was late; lists have one entry per rank."""

    rank: int
    excess_s: tuple[float, ...]
    """What each rank's computations took beyond what was expected, and beyond what the median rank's did."""
    waited_s: tuple[float, ...]
    """What each rank waited for the others beyond what was expected."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def find_late(runs: Sequence[Timeline], expected: Timeline, shown: int = 0) -> FoundLate | None:
    """The rank that was late in most runs against `expected`, a timeline with nobody late; None when nobody was.

    The seconds are those of the run number `shown`.
    """
    late = [_latest(run, expected) for run in runs]
    rank, times = Counter(late).most_common(1)[0]
    if rank is None or 2 * times <= len(runs):
        return None
    waited_s = (waits_s(runs[shown]) - waits_s(expected)).sum(axis=1)
    return FoundLate(rank, tuple(_excess_s(runs[shown], expected).tolist()), tuple(waited_s.tolist()))


def _latest(measured: Timeline, expected: Timeline) -> int | None:
    """The rank that was clearly late in one run."""
    if measured.program.ranks < 2:
        return None
    excess_s = _excess_s(measured, expected)
    *_, second, first = np.argsort(excess_s, kind="stable").tolist()
    clear = excess_s[first] >= max(LEAST_FRAC * measured.makespan_s, TIMES_NEXT * excess_s[second])
    return int(first) if clear else None


def _excess_s(measured: Timeline, expected: Timeline) -> Array:
    """Per rank; of two ranks the quicker one stands for the median."""
    excess_s = working_s(measured) - working_s(expected)
    return np.asarray(excess_s - (np.median(excess_s) if len(excess_s) > 2 else excess_s.min()))
