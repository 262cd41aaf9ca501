"""`Timeline`: when each operation of a program ran, simulated or measured, and what follows from it.

A span is [start_s, end_s] of one operation on its lane (rank, stream), in seconds from the start of the program. The
makespan is the end of the last span. A lane is busy during its spans and idle for the rest of the makespan. A rank's
communication is exposed while it communicates (send, receive, barrier, collective) and computes nothing (no compute,
reduce or copy span): that time is what overlap could still hide.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.shown import Shown
from lockstep.base.units import format_frac, format_time
from lockstep.simulate.program.program import Kind, Program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


COMPUTES = (Kind.COMPUTE, Kind.REDUCE, Kind.COPY)
LAUNCHES = "launches"
"""The stream of a host, which launches what the others do and computes nothing."""


@dataclass(frozen=True, eq=False, repr=False)
class Timeline(Shown):
    """Spans of all operations of a program; arrays in the order of the operations."""

    program: Program
    start_s: Array
    end_s: Array
    source: str = "simulated"
    sample: Any = None
    """Makespans of all draws when times were random; None when there was one draw."""
    assumptions: tuple[str, ...] = field(default=())
    held_B: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Bytes that each rank holds all the time, by name; what operations take and free comes on top."""
    rank_names: Sequence[str] = ()
    """What ranks are called, where they are not numbers."""

    def __post_init__(self) -> None:
        for name in ("start_s", "end_s"):
            value = np.asarray(getattr(self, name), dtype=np.float64)
            if value.shape != (len(self.program),):
                raise BadInput(f"{name} has shape {value.shape} for {len(self.program)} operations")
            value = value.view()
            value.flags.writeable = False
            object.__setattr__(self, name, value)
        if self.rank_names and len(self.rank_names) != self.program.ranks:
            raise BadInput(f"{len(self.rank_names)} names for {self.program.ranks} ranks")
        if len(self.start_s) and not ((self.end_s >= self.start_s) & (self.start_s >= 0)).all():
            raise BadInput("a span must start at 0 or later and end no earlier than it starts")

    def __str__(self) -> str:
        return (
            f"Timeline ({self.source}): {self.program.ranks} ranks, {len(self.program)} operations, "
            f"makespan {format_time(self.makespan_s)}, utilization {format_frac(self.utilization_frac)}"
        )

    @cached_property
    def makespan_s(self) -> float:
        """End of the last operation."""
        return float(self.end_s.max(initial=0.0))

    @cached_property
    def lanes(self) -> tuple[tuple[int, str], ...]:
        """(rank, stream) of every lane that has operations, in order."""
        streams = self.program.streams
        return tuple((int(n) // len(streams), streams[int(n) % len(streams)]) for n in np.unique(self.program.lane))

    def busy_s(self) -> dict[tuple[int, str], float]:
        """Busy time of each lane."""
        total = np.bincount(self.program.lane, weights=self.end_s - self.start_s)
        width = len(self.program.streams)
        return {lane: float(total[lane[0] * width + self.program.streams.index(lane[1])]) for lane in self.lanes}

    def idle_s(self) -> dict[tuple[int, str], float]:
        """Idle time of each lane: makespan less busy."""
        return {lane: self.makespan_s - busy for lane, busy in self.busy_s().items()}

    @cached_property
    def computing_s(self) -> Array:
        """Seconds each rank computes (compute, reduce, copy; overlapping spans once)."""
        return self._covered_s(np.isin(self.program.kind, COMPUTES) & self._on_device)

    @cached_property
    def _on_device(self) -> Array:
        streams = self.program.streams
        found: Array = self.program.stream != (streams.index(LAUNCHES) if LAUNCHES in streams else -1)
        return found

    @cached_property
    def communicating_s(self) -> Array:
        """Seconds each rank communicates (overlapping spans once)."""
        return self._covered_s(~np.isin(self.program.kind, COMPUTES))

    @cached_property
    def exposed_s(self) -> Array:
        """Seconds each rank communicates and does not compute."""
        return self._covered_s(self._on_device) - self.computing_s

    @cached_property
    def waiting_s(self) -> Array:
        """Seconds of the makespan in which a rank does nothing at all (the bubble, for a pipeline)."""
        return self.makespan_s - self._covered_s(np.ones(len(self.program), dtype=bool))

    @property
    def utilization_frac(self) -> float:
        """Mean share of the makespan in which ranks compute."""
        return float(self.computing_s.mean() / self.makespan_s) if self.makespan_s else 0.0

    def _covered_s(self, mask: Array) -> Array:
        """Length of the union of the spans in `mask`, per rank."""
        ids = np.flatnonzero(mask & (self.end_s > self.start_s))
        ids = ids[np.lexsort((self.start_s[ids], self.program.rank[ids]))]
        rank, start, end = self.program.rank[ids], self.start_s[ids], self.end_s[ids]
        reached = np.zeros_like(end)
        edges = [0, *(np.flatnonzero(rank[1:] != rank[:-1]) + 1).tolist(), len(ids)]
        for low, high in itertools.pairwise(edges):
            # Latest end of the earlier spans of the same rank.
            reached[low + 1 : high] = np.maximum.accumulate(end[low : max(low, high - 1)])
        gain = np.maximum(end - np.maximum(start, reached), 0.0)
        return np.bincount(rank, weights=gain, minlength=self.program.ranks)

    @cached_property
    def critical_path(self) -> tuple[int, ...]:
        """Operation ids from the start to the end of the makespan, each starting when the one before it ends.

        A message, barrier or collective appears once, by its member with the smallest id. Measured timelines follow the
        predecessor that ended last. Ties: the first in topological order.
        """
        if not len(self.program):
            return ()
        node, before = self.program.graph.node, self.program.graph.before
        num_nodes = self.program.graph.num_nodes
        end = np.zeros(num_nodes)
        np.maximum.at(end, node, self.end_s)
        member = np.full(num_nodes, -1, dtype=np.int64)
        member[node[::-1]] = np.arange(len(node))[::-1]
        # Helper nodes have no span: their end is that of their latest predecessor, in topological order.
        for v in np.flatnonzero(member < 0)[1:]:
            end[v] = max(end[column[v]] for column in before)
        path, v = [], int(np.flatnonzero(end == end[node].max())[0])
        while v:
            if member[v] >= 0:
                path.append(int(member[v]))
            previous = [int(column[v]) for column in before if column[v]]
            v = max(previous, key=lambda u: (end[u], -u), default=0)
        return tuple(reversed(path))

    def critical_s_by_kind(self) -> dict[str, float]:
        """Seconds of the critical path by kind of operation; `waiting` is what no operation explains."""
        total: dict[str, float] = {}
        for i in self.critical_path:
            name = Kind(int(self.program.kind[i])).name.lower()
            name = "message" if name in ("send", "recv") else name
            total[name] = total.get(name, 0.0) + float(self.end_s[i] - self.start_s[i])
        rest = self.makespan_s - sum(total.values())
        return total | ({"waiting": rest} if rest > 1e-12 * self.makespan_s else {})

    def memory_B(self, rank: int, initial_B: float = 0.0) -> tuple[Array, Array]:
        """(times, bytes in use from then on) of one rank; at one moment frees come before allocations."""
        ids = np.flatnonzero(self.program.rank == rank)
        delta = np.concatenate((self.program.memory_start_B[ids], self.program.memory_end_B[ids]))
        time = np.concatenate((self.start_s[ids], self.end_s[ids]))
        keep = delta != 0
        delta, time = delta[keep], time[keep]
        order = np.lexsort((delta, time))
        return time[order], initial_B + sum(held[rank] for held in self.held_B.values()) + np.cumsum(delta[order])

    def peak_memory_B(self, initial_B: float = 0.0) -> Array:
        """Highest memory of each rank, from `initial_B` and what it holds all the time on."""
        least_B = [initial_B + sum(held[rank] for held in self.held_B.values()) for rank in range(self.program.ranks)]
        return np.array([self.memory_B(rank, initial_B)[1].max(initial=B) for rank, B in enumerate(least_B)])

    def link_utilization_frac(self, bandwidth_Bps: float) -> Array:
        """Matrix ranks x ranks: bytes sent over bytes that a link of that rate carries in the makespan."""
        return self.program.pair_B() / (bandwidth_Bps * self.makespan_s if self.makespan_s else 1.0)

    def to_dict(self) -> Json:
        """Plain JSON form of the summary."""
        peak_B, sent_B = self.peak_memory_B(), self.program.sent_B()
        times_s = {name: getattr(self, name) for name in ("computing_s", "communicating_s", "exposed_s", "waiting_s")}
        numbers = {**times_s, "peak_memory_B": peak_B, "sent_B": sent_B}
        return {
            "source": self.source,
            "ranks": self.program.ranks,
            "operations": len(self.program),
            **picked(self, "makespan_s utilization_frac"),
            "per_rank": [
                {"rank": rank} | {name: float(values[rank]) for name, values in numbers.items()}
                for rank in range(self.program.ranks)
            ],
            "critical_s": self.critical_s_by_kind(),
            **picked(self, "sample assumptions"),
        }


@dataclass(frozen=True, slots=True)
class TimelineDiff:
    """Two timelines of one program, operation by operation: measured less predicted."""

    predicted: Timeline
    measured: Timeline

    @property
    def makespan_frac(self) -> float:
        """(predicted - measured) / measured makespan: above 0 the prediction is pessimistic."""
        return self.predicted.makespan_s / self.measured.makespan_s - 1 if self.measured.makespan_s else 0.0

    def rows(self) -> list[Json]:
        """Total seconds by kind and label: predicted, measured and signed error of the prediction; worst first."""
        program = self.predicted.program
        names = np.stack((program.kind.astype(np.int64), program.label.astype(np.int64)), axis=1)
        keys, index = np.unique(names, axis=0, return_inverse=True)
        total = [
            np.bincount(index.ravel(), weights=t.end_s - t.start_s, minlength=len(keys))
            for t in (self.predicted, self.measured)
        ]
        rows = [
            {
                "kind": Kind(int(kind)).name.lower(),
                "label": program.name(int(label)),
                "predicted_s": float(total[0][i]),
                "measured_s": float(total[1][i]),
                "error_frac": float(total[0][i] / total[1][i] - 1) if total[1][i] else 0.0,
            }
            for i, (kind, label) in enumerate(keys)
        ]
        return sorted(rows, key=lambda row: -abs(row["predicted_s"] - row["measured_s"]))

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "predicted_s": self.predicted.makespan_s,
            "measured_s": self.measured.makespan_s,
            "makespan_frac": self.makespan_frac,
            "rows": self.rows(),
        }


def diff(predicted: Timeline, measured: Timeline) -> TimelineDiff:
    """Compares two timelines of the same program."""
    one, two = predicted.program, measured.program
    same = len(one) == len(two) and all((one.columns[n] == two.columns[n]).all() for n in ("kind", "rank", "peer"))
    if not same:
        raise BadInput(f"timelines of different programs cannot be compared: {one} and {two}")
    return TimelineDiff(predicted, measured)


def merge(timelines: Sequence[Timeline]) -> Timeline:
    """Measured timelines of the ranks of one program, each with its own rank's spans and zeros elsewhere, as one."""
    if not timelines:
        raise BadInput("nothing to merge")
    first = timelines[0]
    for other in timelines[1:]:
        diff(first, other)
    seen = sum((t.end_s > 0).astype(np.int64) for t in timelines)
    if (np.asarray(seen) > 1).any():
        raise BadInput("two of the timelines have a span for the same operation; each rank brings its own")
    start = sum((t.start_s for t in timelines), np.zeros(len(first.program)))
    end = sum((t.end_s for t in timelines), np.zeros(len(first.program)))
    return Timeline(first.program, start, end, source=first.source, assumptions=first.assumptions)
