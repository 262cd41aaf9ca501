"""Timelines as traces: what a profiler on every rank would have recorded of a simulated run.

Kernels start when they could: a collective's on a rank when that rank has arrived, though it moves nothing before the
last one has, as NCCL's do; a receive when the device has nothing else to do before what waits for it. The host launches
a kernel when the one before it starts, except where it is said to be late: then the device is idle until shortly after
the launch. What a step's program calls host time is no kernel, so it is idle. So parts of predicted and of measured
steps come from the same partition, and files written from these traces are the synthetic tests of the diagnosis.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from lockstep.base.records import dataclass, field, replace
from lockstep.base.types.arrays import Floats, Ints
from lockstep.explain.classes import CLASSES, COMMUNICATION
from lockstep.explain.ranks import SHARES, AllRanks
from lockstep.explain.trace import Mark, RankTrace, Spans, sorted_spans
from lockstep.simulate.parallel.pipeline.passes import EXCHANGE
from lockstep.simulate.program import Kind, Timeline
from lockstep.simulate.program.idle import ready_s

LEAD_S = 2e-3
CALL_S = 4e-6
"""From the launch to the start of a kernel on an idle device."""
LEAST_S = 1e-6
"""Of a collective on its last rank, and of messages whose time the prediction puts on the devices."""
SILENT = ("host", "hold", "late")
NCCL = {
    "all-reduce": "AllReduce", "all-gather": "AllGather", "reduce-scatter": "ReduceScatter", "all-to-all": "SendRecv",
    "broadcast": "Broadcast", "reduce": "Reduce", "send": "SendRecv", "recv": "SendRecv",
}  # fmt: skip
NORM_B = 4.0
"""Bytes of the norm of all gradients."""
FIRST_STEP = 10
MOST_NAMED = 8
"""Ranks in the name of a group."""


@dataclass(slots=True)
class _Rows:
    """Operations of one rank while they are collected."""

    names: dict[str, int] = field(default_factory=dict)
    rows: list[tuple[float, float, int, int, int, float, int, int, float, int]] = field(default_factory=list)
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)

    def index(self, name: str) -> int:
        """Number of a name."""
        return self.names.setdefault(name, len(self.names))


@dataclass(frozen=True, slots=True)
class Shown:
    """How the operations of a program appear in a trace; arrays and sequences `[operations]`."""

    part: Sequence[str]
    shares: Floats
    """Of the seconds of computations, the share of every class of `SHARES`."""
    groups: Sequence[tuple[int, ...]]
    """Ranks in every group of the program."""
    ranks: Sequence[int]
    """Number of every rank of the program."""
    stages: Sequence[int | None]
    names: tuple[str, ...] = SHARES
    """Class of each share."""

    @classmethod
    def of(cls, one: AllRanks) -> Shown:
        """Of a predicted step."""
        return cls(one.part, one.shares, one.groups, one.ranks, one.stages)


def plain(timeline: Timeline) -> Shown:
    """Of any timeline: computations are of no known class, collectives are of the group of their ranks."""
    program = timeline.program
    part = ["compute" if kind in (Kind.COMPUTE, Kind.REDUCE, Kind.COPY) else "other" for kind in program.kind.tolist()]
    start, members = program.groups
    groups = [tuple(sorted(program.rank[members[a:b]].tolist())) for a, b in itertools.pairwise(start.tolist())]
    ranks = range(program.ranks)
    return Shown(part, np.ones((len(program), 1)), groups, ranks, [None] * program.ranks, ("unknown",))


def traces_of(
    timelines: Sequence[Timeline],
    shown: Shown,
    late_s: Sequence[Floats] | None = None,
    shares: Sequence[Floats] | None = None,
    world: int | None = None,
) -> list[RankTrace]:
    """Traces of all ranks of successive steps, one timeline each, of one program.

    `late_s[step][operation]`: of the seconds of a computation, those in which the device waited for the host first.
    `shares[step]`: as `Shown.shares`, of a step.
    """
    program = timelines[0].program
    found = [_Rows() for _ in range(program.ranks)]
    marks: list[Mark] = []
    zero = 2 * CALL_S
    for step, timeline in enumerate(timelines):
        late = np.zeros(len(program)) if late_s is None else late_s[step]
        before = _before(timeline)
        ready = _posted(timeline, before)
        launch = _launches(timeline, shown.part) - CALL_S
        now = shown if shares is None else replace(shown, shares=shares[step])
        for i in range(len(program)):
            rows, part = found[int(program.rank[i])], shown.part[i]
            if part in SILENT:
                continue
            if part == "pp" and program.kind[i] not in (Kind.SEND, Kind.RECV):
                continue
            if part == "compute":
                _computation(rows, timeline, now, i, (zero, zero + float(launch[i]), float(late[i])))
            else:
                _communication(rows, timeline, shown, i, zero, float(ready[i]))
        end_s = zero + timeline.makespan_s
        if len(found) > 1:
            _together(found, timeline, shown, zero)
        marks.append(Mark(f"ProfilerStep#{FIRST_STEP + step}", zero - 2 * CALL_S, end_s - 2 * CALL_S))
        zero = end_s
    marks[-1] = Mark(marks[-1].name, marks[-1].start_s, zero)
    return [
        _trace(rows, shown, rank, tuple(marks), world or len(found)) for rank, rows in enumerate(found) if rows.rows
    ]


def _before(timeline: Timeline) -> Ints:
    """The operation before each on its lane, -1 for none."""
    lane, found = timeline.program.lane, np.full(len(timeline.program), -1)
    order = np.lexsort((np.arange(len(lane)), lane))
    same = lane[order[1:]] == lane[order[:-1]]
    found[order[1:][same]] = order[:-1][same]
    return found


def _launches(timeline: Timeline, part: Sequence[str]) -> Floats:
    """When the computation before each on its rank started; 0 for the first of a step."""
    program, found = timeline.program, np.zeros(len(timeline.program))
    last = np.zeros(program.ranks)
    for i in range(len(program)):
        found[i] = last[program.rank[i]]
        if part[i] == "compute" and timeline.end_s[i] > timeline.start_s[i]:
            last[program.rank[i]] = timeline.start_s[i]
    return found


def _posted(timeline: Timeline, before: Ints) -> Floats:
    """When operations are ready; receives not before the computation ahead of the one that waits for them has ended."""
    program, ready = timeline.program, ready_s(timeline)
    found, home = ready.copy(), program.stream == 0
    heads = np.repeat(np.arange(len(program)), np.diff(program.after_start))
    edge = (program.kind[program.after] == Kind.RECV) & (program.rank[heads] == program.rank[program.after])
    for head, receive in zip(heads[edge].tolist(), program.after[edge].tolist(), strict=True):
        if home[head] and before[head] >= 0:
            free = float(timeline.end_s[before[head]])
            found[receive] = min(max(found[receive], free), float(timeline.end_s[receive]))
    # What holds a device for its message is the message; it is received by then.
    sends = program.kind[heads] == Kind.SEND
    for send, other in zip(heads[sends].tolist(), program.after[sends].tolist(), strict=True):
        if program.name(int(program.label[other])) == EXCHANGE:
            found[send] = timeline.start_s[other]
            found[program.match[send]] = min(found[program.match[send]], found[send])
    # One member of a barrier carries what all wait for: each has arrived when its own rank's part of that has ended.
    barriers = np.flatnonzero(program.kind == Kind.BARRIER)
    place = {(int(program.group[i]), int(program.rank[i])): int(i) for i in barriers}
    own = np.zeros(len(program))
    for head, other in zip(heads.tolist(), program.after.tolist(), strict=True):
        member = place.get((int(program.group[head]), int(program.rank[other])), -1) if program.group[head] >= 0 else -1
        if member >= 0:
            own[member] = max(own[member], float(timeline.end_s[other]))
    found[barriers] = own[barriers]
    return found


def _computation(rows: _Rows, timeline: Timeline, shown: Shown, i: int, times_s: tuple[float, float, float]) -> None:
    """Kernels of a computation, one per class that has a share of it; `times_s`: of its step, its launch, lateness."""
    program, (zero_s, called_s, late_s) = timeline.program, times_s
    at, end = zero_s + float(timeline.start_s[i]) + late_s, zero_s + float(timeline.end_s[i])
    label, called_s = program.name(int(program.label[i])), at - CALL_S if late_s > 0 else called_s
    for name, share in zip(shown.names, shown.shares[i].tolist(), strict=True):
        seconds = (end - zero_s - float(timeline.start_s[i]) - late_s) * share
        if seconds <= 0:
            continue
        kernel = rows.index(f"lockstep::{name}({label})")
        rows.rows.append((at, at + seconds, CLASSES.index(name), kernel, 7, called_s, -1, -1, 0.0, -1))
        at += seconds


def _communication(rows: _Rows, timeline: Timeline, shown: Shown, i: int, zero_s: float, ready: float) -> None:
    """The kernel of a collective or a message, from the arrival of its rank on."""
    program, kind = timeline.program, timeline.program.kind[i]
    start, end = zero_s + ready, zero_s + float(timeline.end_s[i])
    rank, peer = shown.ranks[int(program.rank[i])], -1
    if kind in (Kind.SEND, Kind.RECV):
        op, size_B, title = ("send" if kind == Kind.SEND else "recv"), float(program.size_B[i]), shown.part[i]
        peer = shown.ranks[int(program.peer[i])]
        members = tuple(sorted((rank, peer)))
    else:
        members = shown.groups[int(program.group[i])]
        op, size_B, title = program.name(int(program.op[i])) or "all-reduce", float(program.size_B[i]), shown.part[i]
        if kind == Kind.BARRIER:
            size_B, title = NORM_B, "world"
    if len(members) < 2:
        return
    start = min(start, end - LEAST_S)
    called = f"{title}{'-'.join(map(str, members))}"
    if len(members) >= MOST_NAMED or title == "world":
        called = f"{title}{members[0]}x{len(members)}"
    rows.groups[called], rows.titles[called] = members, title
    stream = 20 + int(program.stream[i])
    kernel = rows.index(f"ncclDevKernel_{NCCL.get(op, 'Generic')}_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
    rows.rows.append(
        (
            start,
            end,
            COMMUNICATION,
            kernel,
            stream,
            max(start - LEAD_S, zero_s - CALL_S),
            rows.index(called),
            rows.index(op),
            size_B,
            peer,
        )
    )


def _together(found: list[_Rows], timeline: Timeline, shown: Shown, zero_s: float) -> None:
    """Ranks begin the next step together, as their first collective does: who is ready early waits for the others."""
    program, end = timeline.program, zero_s + timeline.makespan_s
    ready = np.zeros(program.ranks)
    np.maximum.at(ready, program.rank, timeline.end_s)
    members = tuple(sorted(shown.ranks))
    for rank, rows in enumerate(found):
        start, world = min(zero_s + float(ready[rank]), end - LEAST_S), f"world{members[0]}x{len(members)}"
        rows.groups[world], rows.titles[world] = members, "world"
        kernel = rows.index(f"ncclDevKernel_{NCCL['all-reduce']}_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
        # Also on the last rank it is launched before the host's step ends.
        called = min(start, end - 2 * CALL_S) - CALL_S
        rows.rows.append(
            (start, end, COMMUNICATION, kernel, 19, called, rows.index(world), rows.index("barrier"), 1.0, -1)
        )


def _trace(rows: _Rows, shown: Shown, rank: int, marks: tuple[Mark, ...], world: int) -> RankTrace:
    columns = [np.array(column) for column in zip(*rows.rows, strict=True)]
    start, end, kind, name, stream, called, group, op, size, peer = columns
    none = np.full(len(start), -1)
    spans = sorted_spans(Spans(start, end, kind, name, stream, called, group, op, size, peer, none))
    return RankTrace(
        path="", rank=int(shown.ranks[rank]), world=world, device="", host="", zero_ns=0, names=tuple(rows.names),
        spans=spans, marks=marks, groups=rows.groups, titles=rows.titles, stage=shown.stages[rank],
    )  # fmt: skip
