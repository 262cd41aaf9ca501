"""Why a run failed: which rank, at which point, for which reason, and which of several failures came first."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

from lockstep.base.errors import RunFailed
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.run.launch.points import in_words

# A rank that died or stopped by itself explains why its peers' collectives fail, not the other way round.
OWN_CAUSES = ("killed", "stopped", "exited", "raised")
CAUSES = (*OWN_CAUSES, "cut off", "timed out", "silent")
RAISED = ("raised", "cut off", "timed out")
# Where in its own source gloo failed, and what it advises its own users (gloo/transport/tcp/pair.cc of torch 2.13).
_GLOO = re.compile(r"^\[\S*gloo\S*:\d+\] | This is typically caused by [^.]*\. Check the logs.*$")
CUT_OFF = ("connection closed", "connection reset", "connection refused", "broken pipe", "socket", "peer", "gloo")


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of one rank that did not return."""

    rank: int
    cause: str
    """One of CAUSES: killed by a signal, stopped, exited early, raised, cut off from a peer, timed out, silent."""
    reason: str
    point: str
    traceback: str = ""

    def __str__(self) -> str:
        where = in_words(self.point)
        if self.cause in RAISED:
            return f"rank {self.rank} failed {where}: {self.reason}"
        return f"rank {self.rank} {self.reason} {where}"

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "rank cause reason point")


def from_exit(rank: int, exitcode: int, point: str) -> Failure:
    """The failure of a rank whose process ended without returning a value."""
    if exitcode < 0:
        return Failure(rank, "killed", f"killed by {signal.Signals(-exitcode).name}", point)
    return Failure(rank, "exited", f"exited early with code {exitcode}", point)


def from_exception(rank: int, error: BaseException, point: str, traceback: str) -> Failure:
    """The failure of a rank whose worker raised."""
    if isinstance(error, SystemExit):
        return from_exit(rank, error.code if isinstance(error.code, int) else int(error.code is not None), point)
    text = " ".join(str(error).split()) or type(error).__name__
    lowered = text.lower()
    cause = "raised"
    if "timed out" in lowered or "timeout" in lowered:
        cause = "timed out"
    elif isinstance(error, RuntimeError) and any(word in lowered for word in CUT_OFF):
        cause = "cut off"
    return Failure(rank, cause, f"{type(error).__name__}: {_GLOO.sub('', text)}", point, traceback)


def run_failed(failures: Sequence[Failure]) -> RunFailed:
    """The error of a run: the failure that explains the others first, then how many followed."""
    first, *others = sorted(failures, key=lambda failure: CAUSES.index(failure.cause))
    also = "".join(f"; then {failure}" for failure in others[:1])
    more = f"; and {len(others) - 1} more" if len(others) > 1 else ""
    return RunFailed(f"{first}{also}{more}", (first, *others))
