"""`joined`: files of one rank with other steps each are one trace, as of a profiler that records several cycles.

`torch.profiler.schedule(..., repeat=2)` and the folder of TensorBoard's handler have a file for every cycle and rank:
steps 2 and 3, then 6 and 7, on one clock. Between cycles nothing was recorded, which is a time of no step.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lockstep.base.types.arrays import Ints
from lockstep.explain.steps import step_numbers
from lockstep.explain.trace import RankTrace, Spans, sorted_spans


def joined(traces: Sequence[RankTrace]) -> list[RankTrace]:
    """The traces, those of one rank as one where their steps and their times differ; else as they are."""
    ranks: dict[int | None, list[RankTrace]] = defaultdict(list)
    for trace in traces:
        ranks[trace.rank].append(trace)
    return [one for each in ranks.values() for one in (each if not _are_cycles(each) else [_one(each)])]


def _are_cycles(traces: Sequence[RankTrace]) -> bool:
    """Whether files of one rank have steps, and neither a step nor a moment in common."""
    numbers = [step_numbers(trace) for trace in traces]
    if len(traces) < 2 or not all(numbers) or len(set().union(*numbers)) < sum(map(len, numbers)):
        return False
    ends = sorted(
        (trace.zero_ns / 1e9 + low, trace.zero_ns / 1e9 + high) for trace in traces for low, high in [_ends_s(trace)]
    )
    return all(before[1] <= after[0] for before, after in itertools.pairwise(ends))


def _ends_s(trace: RankTrace) -> tuple[float, float]:
    """When the first operation or step begins and the last one ends."""
    low = min([float(trace.spans.start_s.min()), *(mark.start_s for mark in trace.marks)])
    return low, max([float(trace.spans.end_s.max()), *(mark.end_s for mark in trace.marks)])


def _one(traces: Sequence[RankTrace]) -> RankTrace:
    """The cycles of a rank as one trace, by the zero and the path of the first one."""
    traces = sorted(traces, key=lambda trace: trace.zero_ns + 1e9 * _ends_s(trace)[0])
    first = traces[0]
    traces = [trace.clocked(1.0, (trace.zero_ns - first.zero_ns) / 1e9) for trace in traces]
    number = {name: i for i, name in enumerate(dict.fromkeys(name for trace in traces for name in trace.names))}
    spans = [_renamed(trace, number) for trace in traces]
    unclassified: dict[str, float] = defaultdict(float)
    for trace in traces:
        for name, seconds in trace.unclassified.items():
            unclassified[name] += seconds
    return replace(
        first,
        names=tuple(number),
        spans=sorted_spans(Spans(*(np.concatenate([getattr(one, name) for one in spans]) for name in Spans.__slots__))),
        marks=tuple(
            sorted((mark for one in traces for mark in one.marks), key=lambda mark: (mark.start_s, -mark.end_s))
        ),
        waits=(np.concatenate([one.waits[0] for one in traces]), np.concatenate([one.waits[1] for one in traces])),
        groups={name: ranks for trace in traces for name, ranks in trace.groups.items()},
        titles={name: title for trace in traces for name, title in trace.titles.items()},
        unclassified=dict(sorted(unclassified.items(), key=lambda row: -row[1])),
        rates={name: rate for trace in traces for name, rate in trace.rates.items()},
        graphs=any(trace.graphs for trace in traces),
    )


def _renamed(trace: RankTrace, number: dict[str, int]) -> Spans:
    """The operations with the numbers that names have in all cycles together."""
    new: Ints = np.array([*(number[name] for name in trace.names), -1])
    spans = trace.spans
    return replace(spans, name=new[spans.name], group=new[spans.group], op=new[spans.op])
