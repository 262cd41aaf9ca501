"""`find_late`: the late rank of a measured timeline, by what its work took and not by what anybody says.

    excess    what a rank's computations took (`program.working_s`), measured less expected, less the median of all
              ranks: what slows all ranks is nobody's lateness

The late rank is the one whose excess is at least LEAST_FRAC of the makespan and TIMES_NEXT that of any other, in most
runs. Who waited cannot tell: waiting is handed on from neighbour to neighbour, and hides in the bubbles of a pipeline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.program import Timeline, waits_s, working_s

LEAST_FRAC = 0.1  # assumed: below this the jitter of a busy machine looks the same
TIMES_NEXT = 2.0  # assumed


@dataclass(frozen=True, slots=True)
class FoundLate:
    """The rank that was late; lists have one entry per rank."""

    rank: int
    excess_s: tuple[float, ...]
    """What each rank's computations took beyond what was expected, and beyond what the median rank's did."""
    waited_s: tuple[float, ...]
    """What each rank waited for the others beyond what was expected."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return asdict(self) | {"excess_s": list(self.excess_s), "waited_s": list(self.waited_s)}


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


def _excess_s(measured: Timeline, expected: Timeline) -> npt.NDArray[Any]:
    """Per rank; of two ranks the quicker one stands for the median."""
    excess_s = working_s(measured) - working_s(expected)
    return np.asarray(excess_s - (np.median(excess_s) if len(excess_s) > 2 else excess_s.min()))
