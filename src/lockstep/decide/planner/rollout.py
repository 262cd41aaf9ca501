"""`Rollout`: the phase of a reinforcement-learning step that generates: how long, what of it is what, what fits.

Engines are copies of one another; prompts are dealt to them in turn, all answers to a prompt to the same one, and the
phase ends when the last engine has its last answer. Every engine is simulated, answer by answer
(`price/generation/batching.py`), with lengths drawn once. Parts of the time are those of the engine that ends last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Floats, Ints
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.shown import Shown
from lockstep.base.units import format_size, format_time
from lockstep.decide.planner.generation_interval import interval_of
from lockstep.decide.planner.interval import Interval
from lockstep.price.generation import Answered, Engine, Lengths, Passes, Pool, pool_of, simulate_answers
from lockstep.price.generation.lengths import LONGEST

if TYPE_CHECKING:
    from lockstep.decide.planner.configuration import Configuration
    from lockstep.decide.planner.rl_search import Choice
    from lockstep.decide.planner.rl_step import RlStep

MOST_ANSWERS = 1_000_000
POINTS = 100
"""Of the curves over time."""
ENGINE = "tp pp dp ep devices weights_dtype experts_dtype kv_dtype memory_frac most_sequences pass_tokens host_s"
"""Of an engine, what answers print."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What all engines together do at a time."""

    time_s: float
    in_flight: float
    tokens_per_s: float


@dataclass(frozen=True, slots=True, repr=False)
class Rollout(Shown):
    """Generation of all answers of a step."""

    engine: Engine
    pool: Pool
    engines: int
    prompts: int
    group: int
    prompt_tokens: int
    lengths: Lengths
    time_s: float
    tokens: int
    """Of all answers."""
    longest: int
    """Tokens of the longest drawn answer."""
    token_s: float
    """From a token of an answer to its next, in the mean over tokens, prefills of others included."""
    breakdown_s: dict[str, float]
    """Of the engine that ends last: prefill, and the parts of its decode steps."""
    tail_frac: float
    tail_s: float
    """Until the last answer, from when at most `tail_frac` of all are still running."""
    idle_frac: float
    """Of the engines' time, what they wait for the last one."""
    most_in_flight: int
    """Of all engines together."""
    preempted: int
    moments: tuple[Moment, ...]
    assumptions: tuple[str, ...]
    step: RlStep | None = None
    """The whole step that it is part of, where a trainer is given."""
    choices: tuple[Choice, ...] = ()
    """Of a search, the splits and engines that were simulated, the best first."""
    configuration: Configuration | None = None
    """Of the software that the step is for, where one is named."""

    @property
    def answers(self) -> int:
        """Answers of the step."""
        return self.prompts * self.group

    @property
    def devices(self) -> int:
        """Devices of all engines."""
        return self.engines * self.engine.devices

    @property
    def tokens_per_s(self) -> float:
        """Tokens of answers per second, of all engines over the whole phase."""
        return self.tokens / self.time_s

    @property
    def prefill_s(self) -> float:
        """Seconds of the last engine in which it fills in prompts."""
        return self.breakdown_s["prefill"]

    @property
    def interval(self) -> Interval:
        """Where the time is expected."""
        return interval_of(self.time_s)

    @property
    def bound_by(self) -> str:
        """The largest part."""
        return max(self.breakdown_s, key=lambda part: self.breakdown_s[part])

    @property
    def sequence_tokens(self) -> int:
        """Tokens of a prompt with its answer, in the mean: what an update trains on."""
        return round(self.prompt_tokens + self.lengths.mean)

    @property
    def most_tokens(self) -> int:
        """Tokens of a prompt with the longest answer: at the cut that was asked for, else of those that were drawn."""
        most = self.lengths.most
        return self.prompt_tokens + (most if most < LONGEST else self.longest)

    @property
    def held(self) -> int:
        """Sequences of the mean final length that the pools of one engine hold."""
        return self.pool.sequences(self.prompt_tokens + self.lengths.mean)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        lengths = {
            "mean": self.lengths.mean,
            "expected_longest": self.lengths.expected_longest(self.answers),
            "longest": self.longest,
        }
        pool = {**self.pool.to_dict(), "held_sequences": self.held, "memory_B": self.engine.cluster.device.memory_B}
        own = "time_s tokens tokens_per_s token_s prefill_s breakdown_s bound_by tail_frac tail_s idle_frac interval "
        own += "engines devices prompts group answers prompt_tokens most_in_flight preempted moments assumptions step "
        own += "choices configuration"
        return {
            **picked(self, own),
            "tokens_per_s_per_device": self.tokens_per_s / self.devices,
            "engine": picked(self.engine, ENGINE),
            "response_tokens": lengths,
            "memory": pool,
        }


def rollout(
    engine: Engine,
    prompts: int,
    group: int,
    prompt_tokens: int,
    lengths: Lengths,
    *,
    tail_frac: float = 0.1,
    seed: int = 0,
) -> Rollout:
    """Generation of `group` answers to each of `prompts` prompts on all devices of the engine's cluster.

    Raises BadInput where weights do not fit, where the pool does not hold one answer, and for devices that engines do
    not fill.
    """
    if prompts * group > MOST_ANSWERS:
        raise BadInput(
            f"{prompts * group:,} answers are more than the {MOST_ANSWERS:,} that are simulated", "--prompts"
        )
    engines, pool, passes = _engines(engine), pool_of(engine), Passes(engine)
    _check_fits(engine, pool)
    drawn = lengths.draw(np.random.default_rng(seed), prompts * group)
    shares = [share for share in _dealt(drawn.reshape(prompts, group), engines) if len(share)]
    runs = _runs(passes, pool, prompt_tokens, shares, group, lengths.alike)
    asked: Json = {
        "engine": engine,
        "prompts": prompts,
        "group": group,
        "prompt_tokens": prompt_tokens,
        "lengths": lengths,
    }
    return Rollout(
        **asked,
        pool=pool,
        engines=engines,
        tokens=int(drawn.sum()),
        longest=int(drawn.max()),
        tail_frac=tail_frac,
        tail_s=_tail_s(runs, tail_frac),
        moments=_moments(runs),
        assumptions=_assumptions(engine, group),
        **_told(passes, runs, engines),
    )


def _told(passes: Passes, runs: Sequence[Answered], engines: int) -> Json:
    """What the runs of engines say together."""
    ends_s = np.array([run.total_s for run in runs])
    last = runs[int(ends_s.argmax())]
    return {
        "time_s": last.total_s,
        "token_s": sum(_busy_s(run) for run in runs) / sum(int(run.tokens.sum()) for run in runs),
        "breakdown_s": _breakdown(passes, last),
        "idle_frac": float(1.0 - ends_s.sum() / (engines * last.total_s)),
        "most_in_flight": sum(int(run.in_flight.max()) for run in runs),
        "preempted": sum(run.preempted for run in runs),
    }


def _engines(engine: Engine) -> int:
    """Engines that fill the cluster. Raises BadInput where they do not."""
    devices = engine.cluster.num_devices
    if devices % engine.devices:
        raise BadInput(f"engines of {engine.devices} devices do not fill {devices}; try another --rollout-tp", "--gpus")
    return devices // engine.devices


def _check_fits(engine: Engine, pool: Pool) -> None:
    """Raises BadInput where weights leave no pool."""
    if pool.pool_B <= 0:
        need, there = format_size(pool.weights_B + pool.working_B), format_size(pool.capacity_B)
        raise BadInput(
            f"weights and working memory of {need} leave nothing of {there} for keys and values on one "
            f"{engine.cluster.device.name}; cut the engine over more devices",
            "--rollout-tp",
        )


def _dealt(lengths: Ints, engines: int) -> list[Ints]:
    """Lengths of the answers of each engine, prompt by prompt."""
    return [lengths[place::engines].ravel() for place in range(engines)]


def _runs(passes: Passes, pool: Pool, prompt: int, shares: Sequence[Ints], group: int, alike: bool) -> list[Answered]:
    """Each engine's run; of answers that are all alike, engines with as many do the same."""
    known: dict[int, Answered] = {}
    found = []
    for share in shares:
        run = known.get(len(share)) if alike else None
        if run is None:
            run = simulate_answers(passes, pool, prompt, share, passes.engine.most_sequences, group)
            known[len(share)] = run
        found.append(run)
    return found


def _busy_s(run: Answered) -> float:
    """Seconds of all sequences in flight together."""
    ends = np.append(run.start_s[1:], run.total_s)
    return float(np.sum((ends - run.start_s) * run.in_flight))


def _breakdown(passes: Passes, run: Answered) -> dict[str, float]:
    """Prefill and the parts of decode steps; attention is what reads contexts. They add up to the run's seconds."""
    steps = np.where(run.decodes, run.tokens / np.maximum(run.in_flight, 1), 0)
    parts = {part: float(np.sum(steps * seconds[run.in_flight])) for part, seconds in passes.parts_s.items()}
    parts = {part: seconds for part, seconds in parts.items() if seconds}
    attention_s = run.total_s - run.prefill_s - sum(parts.values())
    return {"prefill": run.prefill_s, "attention": attention_s, **parts}


def _tail_s(runs: Sequence[Answered], share: float) -> float:
    """Seconds in which at most a share of all answers is not complete."""
    ends = np.sort(np.concatenate([run.end_s for run in runs]))
    left = int(np.floor(share * len(ends)))
    return float(ends[-1] - ends[len(ends) - left - 1]) if left < len(ends) else float(ends[-1])


def _moments(runs: Sequence[Answered]) -> tuple[Moment, ...]:
    """Sequences in flight and tokens per second of all engines, in equal stretches of time."""
    edges = np.linspace(0.0, max(run.total_s for run in runs), POINTS + 1)
    width_s = edges[1]
    flying, made = np.zeros(POINTS), np.zeros(POINTS)
    for run in runs:
        ends = np.append(run.start_s[1:], run.total_s)
        spans = ends - run.start_s
        flying += np.diff(np.interp(edges, *_grown(run.start_s, ends, spans * run.in_flight))) / width_s
        made += np.diff(np.interp(edges, *_grown(run.start_s, ends, run.tokens))) / width_s
    return tuple(Moment(*map(float, one)) for one in zip(edges[1:], flying, made, strict=True))


def _grown(start_s: Floats, end_s: Floats, amounts: Floats | Ints) -> tuple[Floats, Floats]:
    """Times, and the sum of what came until then."""
    return np.append(start_s[:1], end_s), np.append(0.0, np.cumsum(amounts))


def _assumptions(engine: Engine, group: int) -> tuple[str, ...]:
    """What holds of every answer."""
    model = engine.model
    drafts = ("no draft tokens: its module for several tokens is not used",) if model.mtp_layers else ()
    experts = ("tokens choose experts alike, so that ranks get equal shares",) if model.experts else ()
    shared = (f"the {group} answers to a prompt share its keys and values and one prefill",) if group > 1 else ()
    return (
        "all prompts are there at the start and dealt to engines in turn; none moves to another engine later",
        "decode steps run as whole graphs: beside kernels and launches the host takes "
        f"{format_time(engine.host_s)} for each answer",
        *shared,
        *experts,
        *drafts,
        "rewards, log-probabilities, the update and new weights for engines are not counted",
    )
