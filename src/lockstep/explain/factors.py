"""`factors`: how the operations of a measured run differ from those of the predicted step.

Of rank r in step t, the seconds that a computation of class c is measured to take over those predicted are taken apart

    measured / predicted = class_c * stage_s * rank_rt * rest

class_c, the same for all, is the lower median over stages of the median over a stage's ranks; stage_s is the median of
what remains over the ranks of a stage; rank_rt is what remains of a rank in a step. Where products alone remain in a
model with experts, the rank has more tokens than others (`experts`), else it is slower (`ranks`). Collectives of a
group take the measured over the predicted transfer.

A device that waits for a transfer and has not been given its next kernel either may wait for both. How much of that is
the host's is found by trial: as much as makes the replay's idle time and exposed transfers, together, those measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Array, Floats
from lockstep.explain.predicted import FIRST_STEP, Shown, traces_of
from lockstep.explain.ranks import SHARES, AllRanks
from lockstep.explain.replay import LINKS, MOVED, Factors, Replay
from lockstep.explain.seen import Seen, see
from lockstep.simulate.program import Timeline

HOST = ("idle.host", "idle.sync", "idle.input")
UNKNOWN = "idle.unknown"
CLASS_OF = {
    "matmul": "matmul", "attention": "attention", "norm": "elementwise", "elementwise": "elementwise",
    "unknown": "elementwise", "optimizer": "optimizer",
}  # fmt: skip
LEAST_FRAC = 0.002
"""Of a step: a class or a group that takes less is not compared."""
ALIKE_FRAC = 0.005
"""Of a step, by which hosts of ranks differ by chance."""
EXPERT_FRAC = 0.3
"""Of the excess of products on a rank, what attention and the rest may have of it, if its tokens are more."""
CHANCE_FRAC = 0.02
"""By which the products of ranks with as many tokens differ by chance."""
HIDDEN_FRAC = 0.1
NOT_HIDDEN_FRAC = 0.2
"""Of the seconds that were predicted to hide: where less is hidden, the traffic waits its turn."""

MOST_REPLAYS = 4
MAD_TO_SIGMA = 1.4826
REPLAYED_FRAC = 5e-4


@dataclass(frozen=True)
class Sums:
    """What is compared, of some ranks and steps: seconds, `[steps, ranks]`."""

    classes: Mapping[str, Floats]
    transfer_s: Mapping[str, Floats]
    hidden_s: Mapping[str, Floats]
    idle_s: Floats
    """Waiting for the host."""
    starved_s: Floats
    """Of transfers, waiting for the host, and what may be."""
    disputed_s: Floats


def sums(seen: Seen) -> Sums:
    """Sums of measured, or of predicted traces."""
    shape = len(seen.steps), len(seen.traces)
    classes = {name: np.zeros(shape) for name in SHARES}
    moved: dict[str, Floats] = {kind: np.zeros(shape) for kind in (*MOVED, "other")}
    hidden = {kind: np.zeros(shape) for kind in moved}
    idle, starved, disputed = np.zeros((3, *shape))
    unknown_frac = _host_frac(seen)
    for place, (trace, each) in enumerate(zip(seen.traces, seen.partitions, strict=True)):
        spans, arrived = trace.spans, seen.aligned.arrived_s[place]
        took_s = spans.end_s - np.where(np.isfinite(arrived), np.maximum(arrived, spans.start_s), spans.start_s)
        for step, one in enumerate(each):
            for name, seconds in one.compute_s.items():
                if name in CLASS_OF:
                    classes[CLASS_OF[name]][step, place] += seconds
            # Priced with the kernels that they follow, most of which are elementwise (`Efficiency.gap_s`).
            classes["elementwise"][step, place] += one.idle_s.get("idle.gaps", 0.0)
            mine = one.exposed.span
            # Of collectives that lost their group, as many are of each kind as of the others.
            named = float(np.mean(spans.group[mine] >= 0)) if len(mine) else 1.0
            found = 1.0 / named if seen.kinds.get("", "other") == "other" and named > 0 else 1.0
            for group in np.unique(spans.group[mine]).tolist():
                kind = seen.kinds.get(trace.name(group), "other")
                moved[kind][step, place] += found * float(took_s[mine[spans.group[mine] == group]].sum())
                hidden[kind][step, place] += found * one.hidden_s.get(trace.name(group), 0.0)
            idle[step, place] = sum(one.idle_s.get(name, 0.0) for name in HOST)
            idle[step, place] += unknown_frac * one.idle_s.get(UNKNOWN, 0.0)
            starved[step, place], disputed[step, place] = one.starved_s, one.disputed_s
    return Sums(classes, moved, hidden, idle, starved, disputed)


def _host_frac(seen: Seen) -> float:
    """Share of the host in the idle time of known cause of all ranks and steps; 1 where no cause is known."""
    all_s = [one.idle_s for each in seen.partitions for one in each]
    known_s = sum(seconds for idle_s in all_s for name, seconds in idle_s.items() if name != UNKNOWN)
    return sum(idle_s.get(name, 0.0) for idle_s in all_s for name in HOST) / known_s if known_s > 0 else 1.0


def predicted_seen(one: AllRanks, timeline: Timeline) -> Seen:
    """What the same measurement would show of the predicted step."""
    return shown(one, [timeline])


def shown(one: AllRanks, timelines: list[Timeline], late: list[Floats] | None = None) -> Seen:
    """Successive steps as measured; the last one is run twice, as the end of a trace is no step's."""
    late = [*late, late[-1]] if late else None
    traces = traces_of([*timelines, timelines[-1]], Shown.of(one), late)
    traces.sort(key=lambda trace: trace.rank if trace.rank is not None else -1)
    return see(traces, one.estimate.layout, steps=range(FIRST_STEP, FIRST_STEP + len(timelines)))


def factors(one: AllRanks, seen: Seen, predicted: Seen) -> Factors:
    """How the measured run differs from the predicted step."""
    mine, theirs = sums(seen), sums(predicted)
    place_of = {trace.rank: place for place, trace in enumerate(predicted.traces)}
    here = [place_of[trace.rank if trace.rank is not None else 0] for trace in seen.traces]
    program_rank = {rank: i for i, rank in enumerate(one.ranks)}
    slots = np.array([program_rank[trace.rank if trace.rank is not None else 0] for trace in seen.traces])
    stage = np.array([one.stages[slot] for slot in slots])
    step_s = float(seen.step_s.mean())
    ratio = {
        name: mine.classes[name] / theirs.classes[name][:, here]
        for name in SHARES
        if theirs.classes[name][:, here].min() > LEAST_FRAC * step_s
    }
    # A class that was not measured, as of another run, has no rate.
    classes = {name: common for name, each in ratio.items() if (common := _common(each, stage)) > 0}
    left = {name: ratio[name] / classes[name] for name in classes}
    weight = {name: theirs.classes[name][:, here] * classes[name] for name in classes}
    stages, ranks, experts = _of_ranks(one, left, weight, stage, slots, len(seen.steps))
    if (experts != 1).any():
        # Tokens are shared out: more on one rank are fewer on others, and their mean is what products take.
        mean = float(experts[:, slots].mean())
        classes["matmul"], experts[:, slots] = classes["matmul"] * mean, experts[:, slots] / mean
    links = _links(mine, theirs, here, step_s, len(seen.traces) > 1)
    sure_s = mine.idle_s + mine.starved_s - theirs.idle_s[:, here] - theirs.starved_s[:, here]
    host = _hosts(sure_s, slots, one.program.ranks, step_s)
    compared = {
        name: (float(theirs.classes[name][:, here].mean()), float(mine.classes[name].mean())) for name in SHARES
    }
    compared |= {
        f"{kind} link": (float(theirs.transfer_s[kind][:, here].mean()), float(mine.transfer_s[kind].mean()))
        for kind in MOVED
    }
    compared["host"] = float(theirs.idle_s[:, here].mean()), float(mine.idle_s.mean())
    spread = {name: _spread(each / stages[stage]) for name, each in left.items()} | {
        f"{kind} link": _spread(mine.transfer_s[kind] / theirs.transfer_s[kind][:, here] / links[kind])
        for kind in links
    }
    not_hidden = _not_hidden(mine, theirs, here, step_s)
    found = Factors(classes, links, stages, ranks, experts, host, not_hidden, compared, spread)
    if mine.disputed_s.mean() <= LEAST_FRAC * step_s:
        return found

    def with_disputed(frac: float) -> Factors:
        host = _hosts(sure_s + frac * mine.disputed_s, slots, one.program.ranks, step_s)
        return replace(found, host_s=host)

    def excess_s(frac: float) -> float:
        again = _replayed_seen(one, with_disputed(frac))
        return float(_not_computing_s(again)[:, here].mean() - _not_computing_s(seen).mean())

    return with_disputed(_zero(excess_s, REPLAYED_FRAC * step_s))


def _spread(ratio: Floats) -> float:
    """Standard deviation by the median absolute deviation, which a slow rank does not widen."""
    return MAD_TO_SIGMA * float(np.median(np.abs(ratio - np.median(ratio))))


def _not_computing_s(seen: Seen) -> Floats:
    """Idle time and exposed transfers, `[steps, ranks]`: what others keep a rank waiting for is left out."""
    columns = [
        [sum(one.idle_s.values()) + float(one.exposed.transfer_s.sum()) for one in each] for each in seen.partitions
    ]
    return np.array(columns).T


def _replayed_seen(one: AllRanks, found: Factors) -> Seen:
    """What the same measurement would show of the replay."""
    replay, names = Replay(one, found), found.names
    steps = range(replay.steps)
    late = [replay.durations_s(names, step)[1] for step in steps]
    return shown(one, [replay.timeline(names, step) for step in steps], late)


def _hosts(host_s: Floats, slots: Array, ranks: int, step_s: float) -> Floats:
    """Seconds of all ranks of the program, from those that were measured; ranks that differ by chance are alike."""
    middle = np.median(host_s, axis=1, keepdims=True)
    near = np.abs(host_s - middle) < ALIKE_FRAC * step_s
    alike = np.sum(host_s, axis=1, keepdims=True, where=near) / np.maximum(near.sum(axis=1, keepdims=True), 1)
    found = np.where(near.any(axis=1, keepdims=True), alike, middle) * np.ones((1, ranks))
    found[:, slots] = np.where(near, found[:, slots], host_s)
    found[np.abs(found) < LEAST_FRAC * step_s] = 0.0
    return found


def _zero(excess_s: Callable[[float], float], close_s: float) -> float:
    """Where a function that grows almost in proportion is 0, from 0 to 1; the nearer end where it is nowhere 0."""
    low, high = (0.0, excess_s(0.0)), (1.0, excess_s(1.0))
    if low[1] >= 0 or high[1] <= 0:
        return 0.0 if low[1] >= 0 else 1.0
    for _ in range(MOST_REPLAYS):
        frac = low[0] - low[1] * (high[0] - low[0]) / (high[1] - low[1])
        here = (frac, excess_s(frac))
        if abs(here[1]) < close_s:
            break
        low, high = (here, high) if here[1] < 0 else (low, here)
    return frac


def _common(ratio: Floats, stage: Array) -> float:
    """The lower median over stages of the lower median over a stage's ranks and steps."""
    return _lower_median([_lower_median(ratio[:, stage == one].ravel().tolist()) for one in np.unique(stage)])


def _lower_median(values: Sequence[float]) -> float:
    """The middle one, of an even number the lower of both: of two that differ the faster is right."""
    return float(sorted(values)[(len(values) - 1) // 2])


def _of_ranks(
    one: AllRanks, left: Mapping[str, Floats], weight: Mapping[str, Floats], stage: Array, slots: Array, steps: int
) -> tuple[Floats, Floats, Floats]:
    """(of stages, of ranks in steps, of products of ranks in steps), from what classes leave."""
    stages = np.ones(max(one.stages) + 1)
    ranks, experts = np.ones((steps, one.program.ranks)), np.ones((steps, one.program.ranks))
    body = [name for name in ("matmul", "attention", "elementwise") if name in left]
    if not body:
        return stages, ranks, experts
    whole = _weighted(left, weight, body)
    for at in np.unique(stage):
        stages[at] = _lower_median(whole[:, stage == at].ravel().tolist())
    whole = whole / stages[stage]
    ranks[:, slots] = whole
    if one.estimate.job.num_experts and "matmul" in left and len(body) > 1:
        others = [name for name in body if name != "matmul"]
        other = _weighted(left, weight, others)
        product, other = left["matmul"] / stages[stage], other / stages[stage]
        excess, beside = float(np.abs(product - 1).max()), float(np.abs(other - 1).max())
        if excess > 0.02 and beside < EXPERT_FRAC * excess:
            experts[:, slots], ranks[:, slots] = _alike(product), 1.0
    return stages, ranks, experts


def _alike(values: Floats) -> Floats:
    """`[steps, ranks]`, of ranks that differ by chance their mean: noise on each would add up to a slowest one."""
    near = np.abs(values[:, :, None] - values[:, None, :]) < CHANCE_FRAC * values[:, :, None]
    found: Floats = (near * values[:, None, :]).sum(axis=2) / near.sum(axis=2)
    return found


def _weighted(values: Mapping[str, Floats], weight: Mapping[str, Floats], names: Sequence[str]) -> Floats:
    """The mean of some classes' values by their seconds."""
    weights = np.stack([weight[name] for name in names])
    found: Floats = (np.stack([values[name] for name in names]) * weights).sum(axis=0) / weights.sum(axis=0)
    return found


def _links(mine: Sums, theirs: Sums, here: list[int], step_s: float, several: bool) -> dict[str, float]:
    """Measured over predicted transfer of every kind of group; that of the shortest step where arrivals are unknown."""
    found = {}
    for kind in MOVED:
        predicted, measured = theirs.transfer_s[kind][:, here], mine.transfer_s[kind]
        if predicted.mean() > LEAST_FRAC * step_s and measured.mean() > 0:
            found[kind] = float((np.median if several else np.min)(measured / np.maximum(predicted, 1e-12)))
    return found


def _not_hidden(mine: Sums, theirs: Sums, here: list[int], step_s: float) -> tuple[str, ...]:
    found = []
    for kind in LINKS:
        moved, hidden = theirs.transfer_s[kind][:, here].mean(), theirs.hidden_s[kind][:, here].mean()
        hides = hidden > HIDDEN_FRAC * moved and hidden > LEAST_FRAC * step_s and mine.transfer_s[kind].mean() > 0
        if hides and mine.hidden_s[kind].mean() < NOT_HIDDEN_FRAC * hidden:
            found.append(kind)
    return tuple(found)
