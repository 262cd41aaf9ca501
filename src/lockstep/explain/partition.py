"""A rank's step in parts that add up to it: computing by class, exposed communication, and idle time by cause.

At every moment of a step the device computes, or else communicates, or else is idle:

    computing   the union of its computing operations; where several run, the first class of `classes.CLASSES` counts
    exposed     the union of its collectives without computing; a moment with several belongs to the one that began
                first, and is waiting until the last rank of that one arrived, transfer from then on
    idle        the rest, by what the host did about the operation that ends it:
      gaps        shorter than 5 us
      input       the host was loading data
      sync        the host was waiting for the device
      host        the operation was launched after the device had become idle
      dependency  it was launched before, and waited for another stream or an event
      unknown     its launch is not known, as in a CUDA graph, and those of its neighbours leave both open

Source of the method: unions instead of sums, and exposed is not blocking, as in NVIDIA Megatron-Bridge's guide to
reading Nsight Systems traces (2025) and HolisticTraceAnalysis (Meta, 2023).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array, Bools, Floats, Ints
from lockstep.explain.classes import CLASSES
from lockstep.explain.steps import Window
from lockstep.explain.trace import RankTrace, Spans

GAP_S = 5e-6
IDLE = ("idle.host", "idle.sync", "idle.input", "idle.dependency", "idle.gaps", "idle.unknown")
OF_STEP = ("idle.input", "idle.sync")
COPY = CLASSES.index("copy")
PART_OF = {
    "matmul": "compute.matmul", "attention": "compute.attention", "norm": "compute.stream",
    "elementwise": "compute.stream", "unknown": "compute.stream", "optimizer": "optimizer", "copy": "copies",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Exposed:
    """The share of one collective in its rank's step that nothing computes beside, in seconds."""

    span: Ints
    """Place of each collective in the rank's spans, `[collectives]`."""
    transfer_s: Floats
    waiting_s: Floats
    """NaN where the arrival of the other ranks is unknown; all is in `transfer_s` then."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One step of one rank."""

    window: Window
    compute_s: Mapping[str, float]
    """Seconds by class."""
    exposed: Exposed
    idle_s: Mapping[str, float]
    """Seconds by cause, named as parts."""
    hidden_s: Mapping[str, float]
    """Seconds of communication by group, beside computing or while the device had nothing to compute for its host."""
    starved_s: float
    """Seconds of transfers in which the next computation was not launched yet and needed none of them, as none ended
    between there and its start: the host's lateness.
    """
    disputed_s: float
    """The same before the end of a collective that the computation may have needed; a message of a pipeline it did."""
    between_s: float = 0.0
    """Of waiting for the host, what lies before the first or after the last kernel that computes, in loading data or in
    waiting for the device: time that a step costs the host, not a launch.
    """

    def parts(self, trace: RankTrace, kind: Mapping[str, str]) -> dict[str, float]:
        """Seconds by part; they add up to the window. `kind` names the kind of every group: dp, tp, ..."""
        found = dict.fromkeys(IDLE, 0.0) | dict(self.idle_s)
        for name, seconds in self.compute_s.items():
            found[PART_OF[name]] = found.get(PART_OF[name], 0.0) + seconds
        spans = trace.spans
        for i, transfer_s, waiting_s in zip(
            self.exposed.span.tolist(), self.exposed.transfer_s.tolist(), self.exposed.waiting_s.tolist(), strict=True
        ):
            part = f"{kind.get(trace.name(int(spans.group[i])), 'other')}_comm"
            known = waiting_s == waiting_s
            name = f"{part}.transfer" if known else part
            found[name] = found.get(name, 0.0) + transfer_s
            if known:
                found[f"{part}.waiting"] = found.get(f"{part}.waiting", 0.0) + waiting_s
        return {name: seconds for name, seconds in found.items() if seconds}


def partition(
    trace: RankTrace, window: Window, arrived_s: Floats, kind: Mapping[str, str] = MappingProxyType({})
) -> Partition:
    """The parts of a step. `arrived_s`: when the last rank of each operation arrived, NaN where unknown; `kind`
    names the kind of every group: dp, tp, ...
    """
    spans = trace.spans
    inside = np.flatnonzero((spans.end_s > window.start_s) & (spans.start_s < window.end_s))
    mine = spans.at(inside)
    low, high = np.maximum(mine.start_s, window.start_s), np.minimum(mine.end_s, window.end_s)
    computes = ~mine.communicates
    came = np.clip(np.fmax(arrived_s[inside], mine.start_s), low, high)
    earliest_s = trace.launched_s[0][inside][computes]
    launched = earliest_s[(earliest_s > window.start_s) & (earliest_s < window.end_s)]
    edges = np.unique(np.concatenate((low, high, came, launched, [window.start_s, window.end_s])))
    length = np.diff(edges)
    busy = np.zeros(len(length), dtype=bool)
    compute_s = {}
    for index, name in enumerate(CLASSES[:-1]):
        covered = _covered(edges, low[mine.kind == index], high[mine.kind == index]) & ~busy
        busy |= covered
        if covered.any():
            compute_s[name] = float(length[covered].sum())
    comm = np.flatnonzero(mine.communicates)
    exposed, taken = _exposed(edges, length, busy, low[comm], high[comm], arrived_s[inside][comm])
    free = ~busy & ~taken
    begins_s, starved = _following(mine.start_s[computes], earliest_s, edges)
    starved &= ~busy
    messages = np.array([kind.get(trace.name(group)) == "pp" for group in mine.group[comm].tolist()], dtype=bool)
    late = starved & (_ended(high[comm][messages], begins_s) <= edges[:-1])
    alone = _ended(high[comm], begins_s) <= edges[:-1]
    hidden = _hidden(trace, mine.at(comm), edges, length, busy | starved, low[comm], high[comm])
    moves = _covered(edges, came[comm], high[comm])
    starved_s, disputed_s = (float(length[late & moves & which].sum()) for which in (alone, ~alone))
    works = computes & (mine.kind != COPY)
    ends_s = float(low[works].min(initial=window.end_s)), float(high[works].max(initial=window.start_s))
    idle_s, between_s = _idle(trace, edges, free, window, ends_s)
    return Partition(
        window, compute_s, Exposed(inside[comm], *exposed), idle_s, hidden, starved_s, disputed_s, between_s
    )


def _following(start_s: Floats, earliest_s: Floats, edges: Floats) -> tuple[Floats, Bools]:
    """Of the pieces between `edges`: when the next computation begins, and whether it was surely not launched yet."""
    following = np.searchsorted(start_s, edges[:-1])
    return np.append(start_s, np.inf)[following], np.append(earliest_s, -np.inf)[following] > edges[:-1]


def _ended(ends_s: Floats, until_s: Floats) -> Floats:
    """The last of some ends up to each moment."""
    ends_s = np.concatenate(([-np.inf], np.sort(ends_s)))
    found: Floats = ends_s[np.searchsorted(ends_s, until_s, side="right") - 1]
    return found


def _covered(edges: Floats, low: Floats, high: Floats) -> Bools:
    """Of the pieces between `edges`, those that a span covers; all ends of spans are edges."""
    change = np.zeros(len(edges), dtype=np.int64)
    np.add.at(change, np.searchsorted(edges, low), 1)
    np.add.at(change, np.searchsorted(edges, high), -1)
    return np.cumsum(change)[:-1] > 0


def _exposed(
    edges: Floats, length: Floats, busy: Bools, low: Floats, high: Floats, arrived_s: Floats
) -> tuple[tuple[Floats, Floats], Bools]:
    """((transfer, waiting) of each collective, which pieces they take): each takes what earlier ones left."""
    free_s = np.concatenate(([0.0], np.cumsum(np.where(busy, 0.0, length))))

    def free_between(begin: Array, end: Array) -> Array:
        """Seconds without computing."""
        found: Array = np.interp(end, edges, free_s) - np.interp(begin, edges, free_s)
        return np.where(end > begin, found, 0.0)

    reached = np.concatenate(([-np.inf], np.maximum.accumulate(high)[:-1])) if len(high) else high
    begin = np.maximum(low, reached)
    whole = free_between(begin, high)
    known = np.isfinite(arrived_s)
    last = np.clip(np.where(known, arrived_s, high), begin, np.maximum(begin, high))
    waiting = np.where(known, np.minimum(free_between(begin, last), whole), np.nan)
    transfer = whole - np.where(known, waiting, 0.0)
    return (transfer, waiting), _covered(edges, low, high) & ~busy


def _hidden(
    trace: RankTrace, comm: Spans, edges: Floats, length: Floats, busy: Bools, low: Floats, high: Floats
) -> dict[str, float]:
    found = {}
    for group in np.unique(comm.group).tolist():
        chosen = comm.group == group
        covered = _covered(edges, low[chosen], high[chosen]) & busy
        found[trace.name(group)] = float(length[covered].sum())
    return found


def _idle(
    trace: RankTrace, edges: Floats, free: Bools, window: Window, ends_s: tuple[float, float]
) -> tuple[dict[str, float], float]:
    """(seconds of idle time by cause, those of `between_s`). `ends_s`: of all that computes."""
    change = np.diff(np.concatenate(([0], free.astype(np.int64), [0])))
    low, high = edges[np.flatnonzero(change == 1)], edges[np.flatnonzero(change == -1)]
    spans, found, between_s = trace.spans, dict.fromkeys(IDLE, 0.0), 0.0
    following = np.searchsorted(spans.start_s, high)
    loading, waits = (_touching(each, window.start_s, window.end_s) for each in (trace.loading, trace.waits))
    for begin, end, at in zip(low.tolist(), high.tolist(), following.tolist(), strict=True):
        last = at >= len(spans) or end >= window.end_s
        earliest_s, latest_s = (-np.inf, np.inf) if last else (float(each[at]) for each in trace.launched_s)
        if trace.on_host:
            cause = "idle.host"
        elif end - begin < GAP_S:
            cause = "idle.gaps"
        elif _within(begin, end, *loading):
            cause = "idle.input"
        elif earliest_s > begin:
            cause = "idle.sync" if _within(begin, min(end, earliest_s), *waits) else "idle.host"
        elif latest_s <= begin:
            cause = "idle.dependency"
        else:
            cause = "idle.unknown" if end < window.end_s or trace.graphs else "idle.host"
        found[cause] += end - begin
        if cause in OF_STEP or (cause == "idle.host" and (end <= ends_s[0] or begin >= ends_s[1])):
            between_s += end - begin
    return found, between_s


def _touching(spans: tuple[Floats, Floats], begin: float, end: float) -> tuple[Floats, Floats]:
    """(starts, ends) of those spans that touch the time between."""
    chosen = (spans[0] < end) & (spans[1] > begin)
    return spans[0][chosen], spans[1][chosen]


def _within(begin: float, end: float, starts: Floats, ends: Floats) -> bool:
    """Whether spans cover at least half of the time between."""
    covered_s = float(np.maximum(np.minimum(end, ends) - np.maximum(begin, starts), 0.0).sum())
    return covered_s >= 0.5 * (end - begin) > 0
