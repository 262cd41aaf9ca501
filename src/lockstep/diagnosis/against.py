"""`against`: two measured runs part by part, exposed traffic by group and collective, the largest change first."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from lockstep.diagnosis.measure import Seen, mean_parts
from lockstep.types.plain import Json, picked


@dataclass(frozen=True, slots=True)
class Change:
    """One part of a step in two runs, in seconds of a step."""

    part: str
    """A part of a step, or `dp_comm: reduce-scatter`: what is exposed of a collective."""
    measured_s: float
    other_s: float
    """In the run that it is held against."""

    @property
    def difference_s(self) -> float:
        """Measured less the other."""
        return self.measured_s - self.other_s

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "part measured_s other_s difference_s")


@dataclass(frozen=True, slots=True)
class Changes:
    """Two runs."""

    step_time_s: float
    other_step_time_s: float
    changes: tuple[Change, ...]
    """Their differences add up to that of the steps."""

    @property
    def communication(self) -> Change | None:
        """The collective whose exposed time changed most; None without any."""
        return next((one for one in self.changes if ":" in one.part), None)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def against(seen: Seen, other: Seen) -> Changes:
    """What changed from `other` to `seen`."""
    mine, theirs = _seconds(seen), _seconds(other)
    names = dict.fromkeys((*mine, *theirs))
    rows = [Change(name, mine.get(name, 0.0), theirs.get(name, 0.0)) for name in names]
    rows.sort(key=lambda one: -abs(one.difference_s))
    return Changes(float(seen.step_s.mean()), float(other.step_s.mean()), tuple(rows))


def _seconds(seen: Seen) -> dict[str, float]:
    """Seconds of a step by part, the mean over ranks and steps; of communication by collective."""
    found = {
        name: seconds
        for name, seconds in mean_parts([one for of in seen.parts() for one in of]).items()
        if "_comm" not in name
    }
    exposed: dict[str, float] = defaultdict(float)
    each = len(seen.traces) * len(seen.steps)
    for trace, partitions in zip(seen.traces, seen.partitions, strict=True):
        spans = trace.spans
        for one in partitions:
            waiting = [seconds if seconds == seconds else 0.0 for seconds in one.exposed.waiting_s.tolist()]
            for span, transfer_s, waiting_s in zip(
                one.exposed.span.tolist(), one.exposed.transfer_s.tolist(), waiting, strict=True
            ):
                kind = seen.kinds.get(trace.name(int(spans.group[span])), "other")
                op = trace.name(int(spans.op[span])) or "unknown"
                exposed[f"{kind}_comm: {op}"] += (transfer_s + waiting_s) / each
    return found | exposed
