"""`what_if`: how much longer a step takes for one stage, one kind of operation or one replica, by replay of a table.

Every step of a table of operations becomes a program: an operation follows those of its rank that ended last before it
started; collectives and messages start when all their ranks are there and take their transfer, from the last arrival
to the first end. Gaps between operations, in which the host is late, are left out. The ideal time of an operation is
the mean over all of its kind where it computes, the median of the transfers where it communicates. Then

    slowdown of X = step with the measured times of X and ideal ones of all others / step with all ideal

Source: J. Lin et al., Understanding stragglers in large model training using what-if analysis, arXiv 2505.05713,
section 3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Bools, Floats
from lockstep.explain.answer import Slowdowns
from lockstep.explain.steps import Window, steps_of
from lockstep.explain.trace import RankTrace
from lockstep.simulate.play import simulate
from lockstep.simulate.program import Kind, Program, ProgramBuilder

NEAR_S = 20e-6
"""Operations that end together, as a send and a receive that were posted together."""


@dataclass(frozen=True, eq=False)
class _Step:
    """One step as a program, and what its operations are; arrays and lists `[operations]`."""

    program: Program
    names: list[str]
    stages: Floats
    replicas: Floats
    seconds: Floats
    communicates: Bools


def what_if(traces: Sequence[RankTrace]) -> Slowdowns:
    """The slowdowns of a table's ranks. Raises BadInput where operations do not fit together."""
    steps = list(_steps(traces))
    ideal = _ideal(steps)

    def step_s(measured: Callable[[_Step], Bools]) -> float:
        return float(
            np.mean([_simulated(one, np.where(measured(one), one.seconds, ideal_s)) for one, ideal_s in ideal])
        )

    ideal_s = step_s(lambda one: np.zeros(len(one.names), dtype=bool))
    whole_s = step_s(lambda one: np.ones(len(one.names), dtype=bool))
    names = sorted({name for one in steps for name in one.names})
    stages = sorted({int(stage) for one in steps for stage in one.stages} - {-1})
    replicas = sorted({int(replica) for one in steps for replica in one.replicas} - {-1})
    return Slowdowns(
        replayed_s=whole_s,
        ideal_s=ideal_s,
        by_op={name: step_s(lambda one, n=name: np.array([o == n for o in one.names])) / ideal_s for name in names},  # type: ignore[misc]
        by_stage={stage: step_s(lambda one, s=stage: one.stages == s) / ideal_s for stage in stages},  # type: ignore[misc]
        by_replica={each: step_s(lambda one, r=each: one.replicas == r) / ideal_s for each in replicas},  # type: ignore[misc]
    )


def _simulated(one: _Step, seconds: Floats) -> float:
    program = one.program
    return simulate(replace(program, columns={**program.columns, "duration_s": seconds})).makespan_s


def _ideal(steps: list[_Step]) -> list[tuple[_Step, Floats]]:
    """Every step with the ideal seconds of its operations."""
    pooled: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for one in steps:
        for name, moves, seconds in zip(one.names, one.communicates.tolist(), one.seconds.tolist(), strict=True):
            pooled[name, moves].append(seconds)
    usual = {key: float((np.median if key[1] else np.mean)(values)) for key, values in pooled.items()}
    return [
        (one, np.array([usual[key] for key in zip(one.names, one.communicates.tolist(), strict=True)])) for one in steps
    ]


def _steps(traces: Sequence[RankTrace]) -> Iterator[_Step]:
    windows = [{one.step: one for one in steps_of(trace).windows} for trace in traces]
    for step in sorted(set.intersection(*(set(one) for one in windows))):
        yield _step(traces, [one[step] for one in windows])


def _step(traces: Sequence[RankTrace], windows: Sequence[Window]) -> _Step:
    """One step of all ranks as a program."""
    rows = []
    for place, (trace, window) in enumerate(zip(traces, windows, strict=True)):
        spans = trace.spans
        inside = (spans.start_s >= window.start_s - NEAR_S) & (spans.start_s < window.end_s)
        rows += [(float(spans.start_s[i]), float(spans.end_s[i]), place, i) for i in np.flatnonzero(inside).tolist()]
    rows.sort()
    partners = _partners(traces, rows)
    names = [trace.name(int(trace.spans.name[i])) for _, _, place, i in rows for trace in (traces[place],)]
    # Every operation has a lane of its own: what waits for what is said, not implied by an order.
    turn = _turns([row[2] for row in rows])
    builder = ProgramBuilder(len(traces), tuple(map(str, range(max(turn) + 1))))
    moved = np.array([partner is not None for partner in partners])
    seconds = np.array([end - start for start, end, _, _ in rows])
    for met in {partner for partner in partners if partner is not None}:
        last, first = max(rows[i][0] for i in met), min(rows[i][1] for i in met)
        seconds[list(met)] = max(0.0, first - last)
    written: dict[int, int] = {}
    for at, (name, members) in enumerate(zip(names, partners, strict=True)):
        if at in written:
            continue
        together, kind = (members, Kind.COLLECTIVE) if members is not None else ((at,), Kind.COMPUTE)
        ids = builder.extend(
            kind,
            np.array([rows[i][2] for i in together]),
            stream=np.array([turn[i] for i in together]),
            label=name,
            group=0 if members is not None else -1,
            duration_s=float(seconds[at]),
        )
        written |= dict(zip(together, ids.tolist(), strict=True))
    order = sorted(written, key=lambda at: written[at])
    _depend(builder, rows, written)
    place_of = np.array([rows[at][2] for at in order])
    stages = np.array([-1 if trace.stage is None else trace.stage for trace in traces])[place_of]
    return _Step(
        builder.build(), [names[at] for at in order], stages, _replicas(traces)[place_of], seconds[order], moved[order]
    )


def _turns(places: list[int]) -> list[int]:
    """How many of its rank are before each."""
    seen: dict[int, int] = defaultdict(int)
    found = []
    for place in places:
        found.append(seen[place])
        seen[place] += 1
    return found


def _depend(builder: ProgramBuilder, rows: list[tuple[float, float, int, int]], written: dict[int, int]) -> None:
    """Each operation waits for those of its rank that ended last before it started."""
    ended: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for at, (start, end, place, _) in enumerate(rows):
        before = [row for row in ended[place] if row[0] <= start + NEAR_S]
        latest = max((row[0] for row in before), default=0.0)
        for when, other in before:
            if when >= latest - NEAR_S and other != at:
                builder.depend(written[at], written[other])
        ended[place].append((end, at))
        ended[place] = ended[place][-16:]


def _partners(traces: Sequence[RankTrace], rows: list[tuple[float, float, int, int]]) -> list[tuple[int, ...] | None]:
    """Of every row that communicates, the rows that it meets, itself among them; None for computations."""
    meeting: dict[object, list[int]] = defaultdict(list)
    count: dict[object, int] = defaultdict(int)
    for at, (_, _, place, i) in enumerate(rows):
        trace = traces[place]
        if not trace.spans.communicates[i]:
            continue
        name, group = trace.name(int(trace.spans.op[i])), trace.name(int(trace.spans.group[i]))
        key = (group, name, count[place, group, name])
        count[place, group, name] += 1
        meeting[key].append(at)
    found: list[tuple[int, ...] | None] = [None] * len(rows)
    for members in meeting.values():
        if len({rows[i][2] for i in members}) != len(members):
            raise BadInput("an operation meets itself: ranks do not list the same operations", traces[0].path)
        for i in members:
            found[i] = tuple(members)
    return found


def _replicas(traces: Sequence[RankTrace]) -> Floats:
    """Number of each trace's replica among the ranks of its stage, -1 where stages are not known."""
    seen: dict[int, int] = defaultdict(int)
    found = []
    for trace in traces:
        stage = -1 if trace.stage is None else trace.stage
        found.append(seen[stage] if stage >= 0 else -1)
        seen[stage] += 1
    return np.array(found, dtype=np.float64)
