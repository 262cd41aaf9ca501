"""What a trace shows behind the parts of a step, in a few words: kernels, launches, rates, and who is waited for."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.units import format_bandwidth, format_flops
from lockstep.explain.answer import Collective, Straggler
from lockstep.explain.classes import CLASSES, COMMUNICATION
from lockstep.explain.partition import GAP_S, PART_OF, Partition
from lockstep.explain.trace import RankTrace

if TYPE_CHECKING:
    from lockstep.explain.seen import Seen

NEAR = 4.0
"""Collectives whose sizes differ by more have no rate in common."""
WHY = {"host": "its host", "kernels": "its kernels", "interrupted": "something interrupts it"}
SHORT = 40
WRAPPERS = ("Kernel", "Kernel2", "device_kernel", "enable_sm90_or_later")
"""Of CUTLASS and what is built on it: the kernel is their first argument."""


def with_predicted(found: Sequence[Collective], predicted: Sequence[Collective]) -> tuple[Collective, ...]:
    """Measured collectives with the rate of the predicted one of their group and kind that is nearest in size."""
    rows = []
    for one in found:
        alike = [
            other for other in predicted
            if (other.group, other.op) == (one.group, one.op) and one.size_B and other.size_B and other.busbw_Bps
        ]  # fmt: skip
        near = min(alike, key=lambda other: _apart(one, other), default=None)
        known = near is not None and _apart(one, near) <= np.log(NEAR)
        rows.append(replace(one, predicted_busbw_Bps=near.busbw_Bps) if near is not None and known else one)
    return tuple(rows)


def _apart(one: Collective, other: Collective) -> float:
    return abs(float(np.log((one.size_B or 1.0) / (other.size_B or 1.0))))


def evidence(seen: Seen, collectives: Sequence[Collective], stragglers: Sequence[Straggler]) -> dict[str, str]:
    """By part; parts of which there is nothing to say are missing."""
    found = _kernels(seen)
    if said := _launches(seen):
        found["idle.host"] = said
    for one in collectives:
        # The first of a group takes longest.
        if one.busbw_Bps is not None:
            of = "" if one.predicted_busbw_Bps is None else f" of {format_bandwidth(one.predicted_busbw_Bps)}"
            said = f"{one.op} at {format_bandwidth(one.busbw_Bps)}{of}"
            found.setdefault(f"{one.group}_comm.transfer", said)
            found.setdefault(f"{one.group}_comm", said)
    if stragglers:
        first = stragglers[0]
        when = "every step" if first.steps_frac == 1 else f"{first.steps_frac:.0%} of the steps"
        said = f"for rank {first.rank}, {when}{f', {WHY[first.why]}' if first.why else ''}"
        found |= {f"{one.group}_comm.waiting": said for one in collectives if one.group != "pp"}
    return found


def _kernels(seen: Seen) -> dict[str, str]:
    """Of the parts that compute: the number of kernels of a step, their rate, and the one that takes longest."""
    flops, rated_s = 0.0, 0.0
    count: dict[str, int] = defaultdict(int)
    took_s: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for trace, each in zip(seen.traces, seen.partitions, strict=True):
        spans = trace.spans
        inside = np.zeros(len(spans), dtype=bool)
        for low, high in _bounds(trace, each):
            inside[low:high] = True
        for kind in np.unique(spans.kind[inside & (spans.kind != COMMUNICATION)]).tolist():
            part, chosen = PART_OF[CLASSES[kind]], np.flatnonzero(inside & (spans.kind == kind))
            count[part] += len(chosen)
            seconds = np.bincount(spans.name[chosen], (spans.end_s - spans.start_s)[chosen])
            for name in np.flatnonzero(seconds).tolist():
                took_s[part][short(trace.name(name))] += float(seconds[name])
                if (rate := trace.rates.get(trace.name(name))) is not None:
                    flops, rated_s = flops + rate[0] * float(seconds[name]), rated_s + float(seconds[name])
    steps = len(seen.traces) * len(seen.steps)
    found = {}
    for part, names in took_s.items():
        first = max(names, key=lambda one: names[one])
        most = "" if len(names) == 1 else f", {names[first] / sum(names.values()):.0%} of it in {first}"
        rate_said = f" at {format_flops(flops / rated_s)}" if rated_s and part == PART_OF["matmul"] else ""
        found[part] = f"{count[part] / steps:,.4g} kernel{'' if count[part] == steps else 's'}{rate_said}{most}"
    return found


def _launches(seen: Seen) -> str:
    """How many of a step's kernels were launched after the device was idle; empty where launches are unknown."""
    late = total = 0
    for trace, each in zip(seen.traces, seen.partitions, strict=True):
        if trace.graphs or trace.on_host:
            return ""
        spans = trace.spans
        ends = np.concatenate(([np.inf], np.maximum.accumulate(spans.end_s)[:-1]))
        waited = (spans.start_s - ends > GAP_S) & (spans.called_s > ends)
        for low, high in _bounds(trace, each):
            late, total = late + int(waited[low:high].sum()), total + high - low
    steps = len(seen.traces) * len(seen.steps)
    return f"{late / steps:,.4g} of {total / steps:,.4g} kernels launched when the device was idle" if late else ""


def _bounds(trace: RankTrace, each: Sequence[Partition]) -> list[tuple[int, int]]:
    """Places of the first operation of each step and of the one after its last."""
    edges = [(one.window.start_s, one.window.end_s) for one in each]
    return [(int(low), int(high)) for low, high in np.searchsorted(trace.spans.start_s, edges).tolist()]


def short(name: str) -> str:
    """A kernel's name without return type, namespaces, templates and arguments."""
    plain = re.sub(r"^void |\(anonymous namespace\)::", "", name)
    outer, _, inner = plain.partition("<")
    if outer.rpartition("::")[2] in WRAPPERS and inner:
        return short(inner)
    plain = re.split(r"[<(,>]", plain, maxsplit=1)[0].rpartition("::")[2] or plain
    return plain if len(plain) <= SHORT else f"{plain[: SHORT - 1]}…"
