"""Measured durations on the predicted program: `Factors`, how they differ, and `replay`, the step that follows.

Of rank r in step t, the seconds that a computation of class c is measured to take over those predicted are taken apart

    measured / predicted = class_c * stage_s * rank_rt * rest

class_c, the same for all, is the lower median over stages of the median over a stage's ranks; stage_s is the median of
what remains over the ranks of a stage; rank_rt is what remains of a rank in a step. Where products alone remain in a
model with experts, the rank has more tokens than others (`experts`), else it is slower (`ranks`). Time in which the
device waits for its host is added to the rank's computations in proportion. Collectives of a group take the measured
over the predicted transfer; if traffic that was predicted to run beside computing does not, what it runs beside waits
for it (`overlap`). The replay with all factors is compared with the measured step: its error is the trust of all that
is read from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lockstep.diagnosis.measure import Seen, see
from lockstep.diagnosis.predicted import FIRST_STEP, Shown, traces_of
from lockstep.diagnosis.ranks import SHARES, AllRanks
from lockstep.program import Kind, Program, ProgramBuilder, Timeline
from lockstep.program.program import COLUMNS
from lockstep.simulate import simulate
from lockstep.types.arrays import Array, Floats

HOST = ("idle.host", "idle.sync", "idle.input")
UNKNOWN = "idle.unknown"
CLASS_OF = {
    "matmul": "matmul", "attention": "attention", "norm": "elementwise", "elementwise": "elementwise",
    "unknown": "elementwise", "optimizer": "optimizer",
}  # fmt: skip
LEAST_FRAC = 0.002
"""Of a step: a class or a group that takes less is not compared."""
EXPERT_FRAC = 0.3
"""Of the excess of products on a rank, what attention and the rest may have of it, if its tokens are more."""
HIDDEN_FRAC = 0.1
NOT_HIDDEN_FRAC = 0.2
"""Of the seconds that were predicted to hide: where less is hidden, the traffic waits its turn."""
LINKS = ("tp", "cp", "ep", "dp")
MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True)
class Factors:
    """Measured over predicted."""

    classes: Mapping[str, float]
    """Of every class of `SHARES`."""
    links: Mapping[str, float]
    """Of every kind of group."""
    stages: Floats
    """`[stages]`."""
    ranks: Floats
    """`[steps, program ranks]`; 1 of those that were not measured."""
    experts: Floats
    """Of products alone, `[steps, program ranks]`."""
    host_s: Floats
    """Seconds that the device waits for its host beyond those predicted, `[steps, program ranks]`."""
    not_hidden: tuple[str, ...]
    """Kinds of groups whose traffic was to hide and does not."""
    compared: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """(predicted, measured) seconds per step and rank of every class and kind of group, and of waiting for the host."""
    spread_frac: Mapping[str, float] = field(default_factory=dict)
    """Of every class and link, the relative standard deviation over steps and ranks, by its median absolute one."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of all factors that are not 1, as `replay` takes them."""
        found = [name for name, value in self.classes.items() if value != 1]
        found += [f"{name} link" for name, value in self.links.items() if value != 1]
        flags = (
            ("stages", bool((self.stages != 1).any())), ("ranks", bool((self.ranks != 1).any())),
            ("experts", bool((self.experts != 1).any())), ("host", bool((self.host_s != 0).any())),
            ("overlap", bool(self.not_hidden)),
        )  # fmt: skip
        return (*found, *(name for name, here in flags if here))


@dataclass(frozen=True)
class Sums:
    """What is compared, of some ranks and steps: seconds, `[steps, ranks]`."""

    classes: Mapping[str, Floats]
    transfer_s: Mapping[str, Floats]
    hidden_s: Mapping[str, Floats]
    exposed_s: Floats
    """Of all transfers."""
    idle_s: Floats
    """Waiting for the host."""
    starved_s: Floats


def sums(seen: Seen) -> Sums:
    """Sums of measured, or of predicted traces."""
    shape = len(seen.steps), len(seen.traces)
    classes = {name: np.zeros(shape) for name in SHARES}
    moved: dict[str, Floats] = {kind: np.zeros(shape) for kind in (*LINKS, "pp", "other")}
    hidden = {kind: np.zeros(shape) for kind in moved}
    exposed, idle, starved = np.zeros((3, *shape))
    for place, (trace, each) in enumerate(zip(seen.traces, seen.partitions, strict=True)):
        spans, arrived = trace.spans, seen.aligned.arrived_s[place]
        took_s = spans.end_s - np.where(np.isfinite(arrived), np.maximum(arrived, spans.start_s), spans.start_s)
        for step, one in enumerate(each):
            for name, seconds in one.compute_s.items():
                if name in CLASS_OF:
                    classes[CLASS_OF[name]][step, place] += seconds
            mine = one.exposed.span
            # Of collectives that lost their group, as many are of each kind as of the others.
            named = float(np.mean(spans.group[mine] >= 0)) if len(mine) else 1.0
            found = 1.0 / named if seen.kinds.get("", "other") == "other" and named > 0 else 1.0
            for group in np.unique(spans.group[mine]).tolist():
                kind = seen.kinds.get(trace.name(group), "other")
                moved[kind][step, place] += found * float(took_s[mine[spans.group[mine] == group]].sum())
                hidden[kind][step, place] += found * one.hidden_s.get(trace.name(group), 0.0)
            idle[step, place] = _for_host(one.idle_s)
            starved[step, place] = one.starved_s
            exposed[step, place] = float(one.exposed.transfer_s.sum())
    return Sums(classes, moved, hidden, exposed, idle, starved)


def _for_host(idle_s: Mapping[str, float]) -> float:
    """Idle seconds in which the device waits for its host; of those of unknown cause the same share."""
    total, unknown = sum(idle_s.values()), idle_s.get(UNKNOWN, 0.0)
    known_s, host_s = total - unknown, sum(idle_s.get(name, 0.0) for name in HOST)
    return host_s * total / known_s if known_s > 0 else unknown


def predicted_seen(one: AllRanks, timeline: Timeline) -> Seen:
    """What the same measurement would show of the predicted step."""
    traces = traces_of([timeline, timeline], Shown.of(one))
    traces.sort(key=lambda trace: trace.rank if trace.rank is not None else -1)
    return see(traces, one.estimate.layout, steps=(FIRST_STEP,))


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
    classes = {name: _common(each, stage) for name, each in ratio.items()}
    left = {name: ratio[name] / classes[name] for name in ratio}
    weight = {name: theirs.classes[name][:, here] * classes[name] for name in ratio}
    stages, ranks, experts = _of_ranks(one, left, weight, stage, slots, len(seen.steps))
    if (experts != 1).any():
        # Tokens are shared out: more on one rank are fewer on others, and their mean is what products take.
        mean = float(experts[:, slots].mean())
        classes["matmul"], experts[:, slots] = classes["matmul"] * mean, experts[:, slots] / mean
    links = _links(mine, theirs, here, step_s, len(seen.traces) > 1)
    host = np.zeros((len(seen.steps), one.program.ranks))
    # Transfers in the open, more than predicted, while nothing was launched beside which they could hide.
    longer = max([1.0, *links.values()])
    disguised = np.minimum(mine.starved_s, np.maximum(0.0, mine.exposed_s - theirs.exposed_s[:, here] * longer))
    host[:, slots] = mine.idle_s + disguised - theirs.idle_s[:, here]
    if len(seen.traces) < one.program.ranks:
        unseen = np.setdiff1d(np.arange(one.program.ranks), slots)
        host[:, unseen] = np.median(host[:, slots], axis=1, keepdims=True)
    host[np.abs(host) < LEAST_FRAC * step_s] = 0.0
    compared = {
        name: (float(theirs.classes[name][:, here].mean()), float(mine.classes[name].mean())) for name in SHARES
    }
    compared |= {
        f"{kind} link": (float(theirs.transfer_s[kind][:, here].mean()), float(mine.transfer_s[kind].mean()))
        for kind in LINKS
    }
    compared["host"] = float(theirs.idle_s[:, here].mean()), float(mine.idle_s.mean())
    spread = {name: _spread(each / stages[stage]) for name, each in left.items()} | {
        f"{kind} link": _spread(mine.transfer_s[kind] / theirs.transfer_s[kind][:, here] / links[kind])
        for kind in links
    }
    not_hidden = _not_hidden(mine, theirs, here, step_s)
    return Factors(classes, links, stages, ranks, experts, host, not_hidden, compared, spread)


def _spread(ratio: Floats) -> float:
    """Standard deviation by the median absolute deviation, which a slow rank does not widen."""
    return MAD_TO_SIGMA * float(np.median(np.abs(ratio - np.median(ratio))))


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
            experts[:, slots], ranks[:, slots] = product, 1.0
    return stages, ranks, experts


def _weighted(values: Mapping[str, Floats], weight: Mapping[str, Floats], names: Sequence[str]) -> Floats:
    """The mean of some classes' values by their seconds."""
    weights = np.stack([weight[name] for name in names])
    found: Floats = (np.stack([values[name] for name in names]) * weights).sum(axis=0) / weights.sum(axis=0)
    return found


def _links(mine: Sums, theirs: Sums, here: list[int], step_s: float, several: bool) -> dict[str, float]:
    """Measured over predicted transfer of every kind of group; the shortest step's where nobody knows arrivals."""
    found = {}
    for kind in LINKS:
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


def as_predicted(one: AllRanks) -> Timeline:
    """The predicted step of all ranks, which are equal: what is predicted for slower ones is left out."""
    return Replay(one, same(one.program.ranks, max(one.stages) + 1)).timeline((), 0)


def same(ranks: int, stages: int) -> Factors:
    """Factors of a run that is as predicted."""
    alike = np.ones((1, ranks))
    return Factors({}, {}, np.ones(stages), alike, alike, np.zeros((1, ranks)), ())


class Replay:
    """Steps of the predicted program with some of the measured factors."""

    def __init__(self, one: AllRanks, found: Factors) -> None:
        self.one, self.factors = one, found
        self.steps = len(found.ranks)
        self.base_s = np.where(np.isnan(one.program.duration_s), 0.0, one.program.duration_s)
        self.part = np.array(one.part)
        self.late = self.part == "late"
        self._known: dict[tuple[frozenset[str], int], float] = {}
        computes = self.part == "compute"
        self.busy_s = np.bincount(one.program.rank, np.where(computes, self.base_s, 0.0), one.program.ranks)
        self._serial: Program | None = None

    def shares(self, chosen: Collection[str], step: int) -> Floats:
        """Seconds of every class over those predicted of all classes, `[operations, classes]`."""
        one, found = self.one, self.factors
        shares = one.shares * [found.classes.get(name, 1.0) if name in chosen else 1.0 for name in SHARES]
        if "experts" in chosen:
            shares[:, 0] *= found.experts[step][one.program.rank]
        return shares

    def durations_s(self, chosen: Collection[str], step: int) -> tuple[Floats, Floats]:
        """(seconds of every operation, of these, waiting for the host) with the factors `chosen` in a step."""
        one, found = self.one, self.factors
        rank, computes = one.program.rank, self.part == "compute"
        per = self.shares(chosen, step).sum(axis=1)
        if "stages" in chosen:
            per = per * found.stages[np.array(one.stages)[rank]]
        if "ranks" in chosen:
            per = per * found.ranks[step][rank]
        seconds = np.where(computes, self.base_s * per, self.base_s)
        late = np.zeros(len(rank))
        if "host" in chosen:
            late = np.where(
                computes, found.host_s[step][rank] * self.base_s / np.maximum(self.busy_s[rank], 1e-12), 0.0
            )
            seconds = np.maximum(seconds + late, 0.0)
        for kind, link in found.links.items():
            if f"{kind} link" in chosen:
                seconds = np.where(self.part == kind, seconds * link, seconds)
        # Ranks are written one by one, so what the prediction adds for slower ones would count twice.
        return np.where(self.late, 0.0, seconds), late

    def timeline(self, chosen: Collection[str], step: int) -> Timeline:
        """The step simulated."""
        program = self.one.program
        if "overlap" in chosen:
            if self._serial is None:
                self._serial = without_overlap(self.one, self.factors.not_hidden)
            program = self._serial
        seconds = self.durations_s(chosen, step)[0]
        return simulate(replace(program, columns={**program.columns, "duration_s": seconds}))

    def step_s(self, chosen: Collection[str]) -> float:
        """Seconds of the step, the mean over the steps measured."""
        return sum(self._step_s(frozenset(chosen), step) for step in range(self.steps)) / self.steps

    def _step_s(self, chosen: frozenset[str], step: int) -> float:
        if (chosen, step) not in self._known:
            self._known[chosen, step] = self.timeline(chosen, step).makespan_s
        return self._known[chosen, step]


def without_overlap(one: AllRanks, kinds: Collection[str]) -> Program:
    """The same program in which traffic of some kinds runs when the computations listed before it have ended, and what
    is listed after it waits: as if it were on the computations' own lane.
    """
    program = one.program
    builder = ProgramBuilder(program.ranks, program.streams)
    columns = {name: program.columns[name] for name in COLUMNS}
    for name in ("label", "op", "algorithm", "buffer", "source"):
        text = np.array([builder.name(program.name(i)) for i in range(len(program.names))] + [-1])
        columns[name] = text[columns[name]]
    builder.extend(**columns)
    heads = np.repeat(np.arange(len(program)), np.diff(program.after_start))
    builder.depend(heads, program.after)
    compute = program.streams.index("compute")
    order = np.lexsort((np.arange(len(program)), program.rank))
    last: dict[tuple[int, str], int] = {}
    for i in order.tolist():
        rank, moves = int(program.rank[i]), one.part[i] in kinds and program.kind[i] == Kind.COLLECTIVE
        if moves:
            if (before := last.get((rank, "compute"))) is not None:
                builder.depend(i, before)
            last[rank, "moved"] = i
        elif program.stream[i] == compute:
            if (before := last.get((rank, "moved"))) is not None:
                builder.depend(i, before)
            last[rank, "compute"] = i
    return builder.build()
