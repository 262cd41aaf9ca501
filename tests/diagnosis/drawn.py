"""Runs with a known fault: drawn layouts, one fault each, written as the trace files of all ranks.

The traces come from the predicted step with changed durations (`Replay`), every operation with noise of its own. What
a fault costs is the simulated step with it less the one without, both without noise: that is the truth which the
diagnosis has to find in the files.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lockstep.base.errors import LockstepError
from lockstep.base.types.arrays import Floats
from lockstep.decide.planner.estimate import Estimate
from lockstep.explain.answer import Beside
from lockstep.explain.beside import beside
from lockstep.explain.factors import predicted_seen, sums
from lockstep.explain.predicted import Shown, traces_of
from lockstep.explain.ranks import AllRanks, all_ranks
from lockstep.explain.read.kineto import read_kineto
from lockstep.explain.replay import Factors, Replay, same
from lockstep.explain.seen import see
from lockstep.explain.trace import RankTrace
from lockstep.explain.write_kineto import write_kineto
from lockstep.show.verbs.estimate import estimate
from lockstep.simulate.play import simulate
from lockstep.simulate.program import Timeline

STEPS, USED = 4, (1, 2)
NOISE, DRIFT_FRAC = 0.01, 2e-5
FAULTS = (
    "none", "host", "ranks", "rotating", "link", "matmul", "elementwise", "unfused", "overlap", "stages", "experts",
)  # fmt: skip
DENSE = ("llama3-8b", "gpt3-6b7", "gpt3-13b", "qwen2.5-3b", "llama2-70b", "gpt2-xl")
EXPERTS = ("mixtral-8x7b", "deepseek-v2-lite")
CLUSTERS = ("dgx-h100", "dgx-a100-80gb")
MOST_FACTOR = 200.0


@dataclass(frozen=True)
class Run:
    """A drawn run and the truth about it."""

    estimate: Estimate
    one: AllRanks
    fault: str
    factors: Factors
    told: dict[str, object]
    seed: int

    def timelines(self, names: tuple[str, ...]) -> tuple[list[Timeline], list[Floats], list[Floats]]:
        """(timelines, late seconds, shares) of all steps with the factors `names`, with the run's noise."""
        replay, found = Replay(self.one, self.factors), ([], [], [])
        for step in range(STEPS):
            noise = np.random.default_rng((self.seed, step)).lognormal(0.0, NOISE, len(self.one.program))
            seconds, late = replay.durations_s(names, step)
            program = replay.timeline(names, step).program
            noisy = replace(program, columns={**program.columns, "duration_s": seconds * noise})
            shares = replay.shares(names, step)
            found[0].append(simulate(noisy))
            found[1].append(late * noise)
            found[2].append(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-12))
        return found

    def traces(self) -> list[RankTrace]:
        """What profilers of all ranks would have seen."""
        timelines, late, shares = self.timelines(self.factors.names)
        traces = traces_of(timelines, Shown.of(self.one), late, shares, self.estimate.layout.world)
        return [unfused(one) for one in traces] if self.fault == "unfused" else traces

    def true_s(self) -> float:
        """What the fault costs in the steps used, without noise."""
        replay = Replay(self.one, self.factors)
        with_s = [replay.timeline(self.factors.names, step).makespan_s for step in USED]
        return float(np.mean(with_s)) - replay.timeline((), 0).makespan_s

    def write(self, folder: Path, **options: object) -> list[Path]:
        """Files of all ranks, each with a clock of its own that drifts."""
        chance, found = random.Random(self.seed), []
        for trace in self.traces():
            path = folder / f"{chance.random():.9f}.json{'.gz' if chance.random() < 0.5 else ''}"
            drifting = trace.clocked(1.0 + chance.uniform(-DRIFT_FRAC, DRIFT_FRAC), 0.0)
            write_kineto(drifting, path, clock_s=chance.uniform(0, 50), base_ns=10**18, **options)
            found.append(path)
        return found

    def diagnosed(self, folder: Path, **options: object) -> Beside:
        """What the diagnosis says of the files, which are written with `options` of `write_kineto`."""
        traces = [read_kineto(path) for path in self.write(folder, **options)]
        return beside(self.estimate, see(traces, self.estimate.layout))


def unfused(trace: RankTrace) -> RankTrace:
    """The same with the kernels of attention that is not fused."""
    names = tuple(
        "void (anonymous namespace)::softmax_warp_forward<float>" if "::attention(" in n else n for n in trace.names
    )
    return replace(trace, names=names)


def draw(seed: int, fault: str) -> Run:
    """A run with `fault`: layouts are drawn until one has it."""
    chance = random.Random(f"{seed} {fault}")
    for _ in range(400):
        try:
            found = _estimate(chance, fault)
        except LockstepError:
            continue
        layout = found.layout
        if layout.world > 16 or (fault in ("ranks", "rotating") and layout.world // layout.pp < 2):
            continue
        if (run := _run(chance, found, fault, seed)) is not None:
            return run
    raise AssertionError(f"no layout for {fault}")


def _estimate(chance: random.Random, fault: str) -> Estimate:
    """A layout on one or two nodes."""
    model = chance.choice(EXPERTS if fault == "experts" else (*DENSE, *EXPERTS[:1]))
    nodes, tp, pp = chance.choice((1, 2)), chance.choice((1, 2, 4)), chance.choice((1, 2, 4))
    if fault == "stages":
        pp = chance.choice((2, 4))
    words: dict[str, object] = {"tp": tp, "pp": pp, "micro_batch": chance.choice((1, 2))}
    if model in EXPERTS:
        words |= {"tp": 1, "ep": chance.choice((2, 4, 8))}
    dp = 8 * nodes // int(words["tp"]) // pp  # type: ignore[call-overload]
    words["batch"] = max(1, dp) * int(words["micro_batch"]) * chance.choice((2, 4, 8))  # type: ignore[call-overload]
    words["zero"] = chance.choice((0, 1, 3) if pp == 1 else (0, 1))
    words["recompute"] = chance.choice(("none", "full"))
    words["seq"] = chance.choice((2048, 4096))
    return estimate(model, f"{chance.choice(CLUSTERS)}:{nodes}", **words)  # type: ignore[arg-type]


def _run(chance: random.Random, found: Estimate, fault: str, seed: int) -> Run | None:
    """The run with as much of the fault as costs what is drawn; None where the layout cannot have it."""
    one = all_ranks(found, range(found.layout.world))
    ranks, stages = one.program.ranks, max(one.stages) + 1
    clean = replace(
        same(ranks, stages), ranks=np.ones((STEPS, ranks)), experts=np.ones((STEPS, ranks)),
        host_s=np.zeros((STEPS, ranks)),
    )  # fmt: skip
    base_s = Replay(one, clean).step_s(())
    told: dict[str, object] = {}
    if fault == "none":
        return Run(found, one, fault, clean, told, seed)
    make = _maker(chance, one, clean, fault, told)
    if make is None:
        return None
    # Rates and links count only outside of the prediction's interval; what the measured run shows by itself anyway.
    past_s = found.interval.high / base_s - 1.0
    target_s = base_s * (chance.uniform(0.08, 0.5) if fault in _MEASURED else past_s + chance.uniform(0.1, 0.5))

    def cost_s(factor: float) -> float:
        factors = make(factor)
        return Replay(one, factors).step_s(factors.names) - base_s

    if fault == "overlap":
        return Run(found, one, fault, make(1.0), told, seed) if cost_s(1.0) > 0.04 * base_s else None
    if cost_s(MOST_FACTOR) < target_s:
        return None
    low, high = 1.0, MOST_FACTOR
    for _ in range(40):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if cost_s(middle) < target_s else (low, middle)
    return Run(found, one, fault, make(high), told, seed)


_MEASURED = ("host", "ranks", "rotating", "stages", "experts", "overlap")


def _maker(
    chance: random.Random, one: AllRanks, clean: Factors, fault: str, told: dict[str, object]
) -> Callable[[float], Factors] | None:
    """Factors of so much of a fault."""
    ranks, layout = one.program.ranks, one.estimate.layout
    busy_s = Replay(one, clean).busy_s
    if fault == "host":
        return lambda f: replace(clean, host_s=np.full((STEPS, ranks), (f - 1.0) * float(busy_s.mean())))
    if fault == "ranks":
        slow = chance.randrange(ranks)
        told["rank"] = one.ranks[slow]
        pick = np.zeros((STEPS, ranks))
        pick[:, slow] = 1.0
        return lambda f: replace(clean, ranks=1.0 + (f - 1.0) * pick)
    if fault == "rotating":
        pick = np.zeros((STEPS, ranks))
        for step, slow in enumerate(chance.sample(range(ranks), min(STEPS, ranks)) * STEPS):
            if step < STEPS:
                pick[step, slow] = 1.0
        return lambda f: replace(clean, ranks=1.0 + (f - 1.0) * pick)
    if fault == "stages":
        told["stage"] = layout.pp - 1
        last = np.arange(layout.pp) == layout.pp - 1
        return lambda f: replace(clean, stages=np.where(last, f, 1.0))
    if fault == "experts":
        return _skewed(chance, one, clean, told)
    seen = predicted_seen(one, Replay(one, clean).timeline((), 0))
    total = sums(seen)
    if fault == "link":
        kinds = [kind for kind, each in total.transfer_s.items() if kind != "other" and each.mean() > 0]
        kinds = [kind for kind in kinds if total.transfer_s[kind].mean() > 0.004 * seen.step_s.mean()]
        if not kinds:
            return None
        told["kind"] = kind = chance.choice(kinds)
        return lambda f: replace(clean, links={kind: f})
    if fault == "overlap":
        kinds = [
            kind for kind in ("dp", "tp", "ep")
            if total.hidden_s[kind].mean() > max(0.2 * total.transfer_s[kind].mean(), 0.01 * seen.step_s.mean())
        ]  # fmt: skip
        return (lambda f: replace(clean, not_hidden=(kinds[0],))) if kinds else None
    name = "attention" if fault == "unfused" else fault
    return lambda f: replace(clean, classes={name: f})


def _skewed(
    chance: random.Random, one: AllRanks, clean: Factors, told: dict[str, object]
) -> Callable[[float], Factors] | None:
    """One rank of each expert group has more tokens, the others as many fewer, which keep a fifth of theirs."""
    ep = one.estimate.layout.ep
    if ep < 2:
        return None
    busy = chance.randrange(ep)
    digit = np.array([rank % ep for rank in one.ranks])
    told["rank"] = busy

    def skewed(factor: float) -> Factors:
        more = min(factor, 1.0 + 0.8 * (ep - 1)) - 1.0
        return replace(clean, experts=np.tile(np.where(digit == busy, 1.0 + more, 1.0 - more / (ep - 1)), (STEPS, 1)))

    return skewed
