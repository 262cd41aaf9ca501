"""`measure`: what traces of a run show of its step, without any prediction.

Parts of the step are means over ranks and steps, whose total is the mean step. Who waits for whom: in each collective,
the ranks that arrived earlier wait for the last one, in time that they do not compute; messages of a pipeline are the
bubble and count apart.

Lateness spreads: who waits for a slow rank keeps others waiting. A straggler is the rank whose own work and host take
longest beyond the median of its peers, which are the ranks that it shares groups other than a pipeline's with. It costs
what its peers' communication is exposed more than its own, at most its excess: transfers are alike, so that is waiting,
also where clocks do not meet. It stays if it is the same rank in two thirds of the steps, else it rotates. The words
are those of NVIDIA's resiliency extension (straggler detection, 2025).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.explain.answer import Collective, Input, Kernel, Measured, Part, Quality, Rank, Straggler
from lockstep.explain.classes import CLASSES, COMMUNICATION
from lockstep.explain.evidence import evidence
from lockstep.explain.interrupted import why
from lockstep.explain.seen import Seen, see
from lockstep.explain.trace import TABLE_HOST, RankTrace
from lockstep.price.layout import Layout

STAYS_FRAC = 2 / 3
COSTS_FRAC = 0.01
"""Of a step, and of all of them: what others wait for a rank, from which on it is called a straggler."""
SHOWN_FRAC = 0.01
TURNS = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1, "all-to-all": 1}
"""Of n ranks, TURNS (n - 1) / n bytes go over the wire per byte of the buffer; nccl-tests, doc/PERFORMANCE.md."""


def waits_s(seen: Seen) -> Array:
    """Exposed seconds that rank i (row) waited for rank j (column), without messages; `[steps, ranks, ranks]`."""
    count = len(seen.traces)
    found = np.zeros((len(seen.steps), count, count))
    for i, (trace, each) in enumerate(zip(seen.traces, seen.partitions, strict=True)):
        for step, one in enumerate(each):
            spans = one.exposed.span
            last = seen.aligned.last[i][spans]
            pipelines = [i for i, name in enumerate(trace.names) if seen.kinds.get(name) == "pp"]
            message = np.isin(trace.spans.group[spans], pipelines)
            chosen = np.isfinite(one.exposed.waiting_s) & (last >= 0) & (last != i) & ~message
            np.add.at(found[step, i], last[chosen], one.exposed.waiting_s[chosen])
    return found


def peers(seen: Seen) -> list[list[int]]:
    """Places of the ranks that do the same work, as they share a group that is neither a pipeline's nor of all."""
    count, same = len(seen.traces), np.eye(len(seen.traces), dtype=bool)
    members: dict[str, list[int]] = defaultdict(list)
    for place, trace in enumerate(seen.traces):
        for group in np.unique(trace.spans.group[trace.spans.communicates]).tolist():
            if seen.kinds.get(name := trace.name(group), "other") not in ("pp", "other"):
                members[f"{name}{trace.groups.get(name, ())}"].append(place)
    for places in members.values():
        same[np.ix_(places, places)] = True
    for _ in range(count):
        wider = (same.astype(np.int64) @ same.astype(np.int64)) > 0
        if (wider == same).all():
            break
        same = wider
    if not members:
        same[:] = True
    return [np.flatnonzero(row).tolist() for row in same]


def stragglers(seen: Seen) -> tuple[Straggler, ...]:
    """The ranks that others wait for, the most expensive first; none where it costs less than 1 % of a step."""
    if len(seen.traces) < 2:
        return ()
    computing, idle, waited = own_s(seen)
    of = peers(seen)
    kernels, host = _excess(computing, of), _excess(idle, of)
    excess = kernels + host
    found: dict[int, list[float]] = defaultdict(list)
    for step, row in enumerate(excess):
        place = int(np.argmax(row))
        others = [i for i in of[place] if i != place]
        if not others:
            continue
        lost_s = float(np.mean(waited[step, others]) - waited[step, place])
        cost_s = min(float(row[place]), max(0.0, lost_s))
        if cost_s >= COSTS_FRAC * float(seen.step_s[step]):
            found[place].append(cost_s)
    steps = len(excess)
    if sum(map(sum, found.values())) < COSTS_FRAC * float(seen.step_s.sum()):
        return ()
    times = sum(map(len, found.values()))
    longer_s = kernels.sum(axis=0), host.sum(axis=0)
    rows = [
        Straggler(
            _rank(seen, place), "stays" if len(costs) >= STAYS_FRAC * times else "rotates", len(costs) / steps,
            sum(costs) / steps,
            why(seen, place, [i for i in of[place] if i != place], *(float(x[place]) for x in longer_s)),
        )
        for place, costs in found.items()
    ]  # fmt: skip
    return tuple(sorted(rows, key=lambda one: -one.cost_s))


def _excess(own: Array, of: Sequence[Sequence[int]]) -> Array:
    """Beyond the median of each rank's other peers; 0 of a rank without any."""
    others = [[one for one in each if one != i] or [i] for i, each in enumerate(of)]
    return np.stack([own[:, i] - np.median(own[:, each], axis=1) for i, each in enumerate(others)], axis=1)


def own_s(seen: Seen) -> tuple[Array, Array, Array]:
    """(seconds of own work, of own host, of exposed communication) of every rank, `[steps, ranks]`."""
    computing, host, waited = np.zeros((3, len(seen.steps), len(seen.traces)))
    for place, each in enumerate(seen.partitions):
        for step, one in enumerate(each):
            idle = sum(seconds for name, seconds in one.idle_s.items() if name != "idle.dependency")
            computing[step, place], host[step, place] = sum(one.compute_s.values()), idle
            waited[step, place] = float(one.exposed.transfer_s.sum() + np.nansum(one.exposed.waiting_s))
    return computing, host, waited


def _rank(seen: Seen, place: int) -> int:
    rank = seen.traces[place].rank
    return place if rank is None else rank


def measure(
    traces: Sequence[RankTrace],
    layout: Layout | None = None,
    given: Mapping[str, str] | None = None,
    steps: Sequence[int] | None = None,
) -> Measured:
    """What the traces show. Raises BadInput for traces that do not belong together."""
    return measured(see(traces, layout, given, steps))


def measured(seen: Seen) -> Measured:
    """The same of traces that are aligned and partitioned."""
    each = seen.parts()
    late = waits_s(seen).sum(axis=1).mean(axis=0) / max(1, len(seen.traces) - 1)
    ranks = []
    for place, (trace, of) in enumerate(zip(seen.traces, each, strict=True)):
        parts = mean_parts(of)
        late_s = float(late[place]) if len(seen.traces) > 1 else None
        ranks.append(Rank(_rank(seen, place), trace.stage, parts, late_s, parts.get("idle.host")))
    whole = mean_parts([one for of in each for one in of])
    step_s, moved, slow = seen.step_s, collectives(seen), stragglers(seen)
    told = evidence(seen, moved, slow)
    longest = sorted(whole.items(), key=lambda row: -row[1])
    return Measured(
        inputs=tuple(_input(seen, place) for place in range(len(seen.traces))),
        step_time_s=float(step_s.mean()),
        spread_s=float(np.ptp(step_s)) if len(step_s) > 1 else None,
        parts=tuple(Part(name, seconds, evidence=told.get(name, "")) for name, seconds in longest),
        ranks=tuple(ranks),
        stragglers=slow,
        collectives=moved,
        kernels=kernels(seen),
        not_known=seen.not_known,
    )


def mean_parts(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each part."""
    total: dict[str, float] = defaultdict(float)
    for one in parts:
        for name, seconds in one.items():
            total[name] += seconds / len(parts)
    return dict(total)


def _input(seen: Seen, place: int) -> Input:
    trace = seen.traces[place]
    drift_frac = None if seen.aligned.end_skew_s is None else seen.aligned.drift_frac[place]
    quality = Quality(seen.aligned.matched_frac, seen.aligned.end_skew_s, drift_frac, trace.unclassified_frac)
    kind = "operations" if trace.host == TABLE_HOST else "kineto"
    return Input(trace.path, kind, trace.rank, seen.steps, quality)


def _inside(seen: Seen, place: int) -> Array:
    """Which operations of a trace lie in the steps used."""
    start_s, windows = seen.traces[place].spans.start_s, [one.window for one in seen.partitions[place]]
    begins_s, ends_s = np.array([one.start_s for one in windows]), np.array([one.end_s for one in windows])
    at = np.searchsorted(begins_s, start_s, side="right") - 1
    inside: Array = (at >= 0) & (start_s < ends_s[np.maximum(at, 0)])
    return inside


def collectives(seen: Seen) -> tuple[Collective, ...]:
    """Collectives by group, kind and size, those that take longest first; their rate is of the transfer alone."""
    found: dict[tuple[str, str, float], list[float]] = defaultdict(list)
    sizes: dict[tuple[str, str, float], int] = {}
    for place, trace in enumerate(seen.traces):
        spans, arrived = trace.spans, seen.aligned.arrived_s[place]
        for i in np.flatnonzero(_inside(seen, place) & spans.communicates).tolist():
            group = trace.name(int(spans.group[i]))
            key = seen.kinds.get(group, "other"), trace.name(int(spans.op[i])), float(spans.size_B[i])
            begin = arrived[i] if np.isfinite(arrived[i]) else spans.start_s[i]
            found[key].append(float(spans.end_s[i] - begin))
            sizes[key] = len(trace.groups.get(group, ())) or sizes.get(key, 0)
    each = len(seen.traces) * len(seen.steps)
    rows = []
    for (kind, op, size_B), seconds in sorted(found.items(), key=lambda row: -sum(row[1])):
        middle, ranks = float(np.median(seconds)), sizes[kind, op, size_B]
        known = size_B > 0 and middle > 0 and op in TURNS and ranks > 1
        rate = size_B / middle * TURNS[op] * (ranks - 1) / ranks if known else None
        rows.append(Collective(kind, op, size_B or None, len(seconds) / each, rate))
    return tuple(rows)


def kernels(seen: Seen) -> tuple[Kernel, ...]:
    """Computing kernels by name that take 1 % of the step or more, those that take longest first."""
    total: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for place, trace in enumerate(seen.traces):
        spans = trace.spans
        chosen = _inside(seen, place) & (spans.kind != COMMUNICATION)
        for name in np.unique(spans.name[chosen]).tolist():
            of = chosen & (spans.name == name)
            row = total[CLASSES[int(spans.kind[of][0])], trace.name(name)]
            row[0] += float((spans.end_s - spans.start_s)[of].sum())
            row[1] += int(of.sum())
    each, step_s = len(seen.traces) * len(seen.steps), float(seen.step_s.mean())
    rates = {name: rate for trace in seen.traces for name, rate in trace.rates.items()}
    rows = [
        Kernel(kind, name, count / each, seconds / each, *rates.get(name, ()))
        for (kind, name), (seconds, count) in total.items()
    ]
    return tuple(sorted((one for one in rows if one.seconds >= SHOWN_FRAC * step_s), key=lambda one: -one.seconds))
