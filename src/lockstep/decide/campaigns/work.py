"""Seconds of a run without failures, part by part: its steps, what devices wait for, data, evaluation.

    straggler   compute (E[max of n] / mean - 1)       every step waits for the slowest of n devices (`stragglers`)
    data        max(0, batch x bytes / rate - step)    reading the next batch beside the step
    evaluation  eval_tokens / tokens_per_s / 3         per evaluation; a forward pass is a third of a step's FLOPs
Parts of the step are those of `estimate`.

`Ramp`: a batch that grows while training begins, in equal portions of tokens, up to the full batch.

    steps = sum over phases of  tokens_i / batch_i
Small batches make better use of tokens while the loss falls fast (the critical batch is small then), and cost more
seconds per token. Batches of a ramp are what the layout can split: multiples of dp x micro-batch (x pp where the
schedule is interleaved).

Source: T. Brown et al., "Language models are few-shot learners", 2020, appendix B (GPT-3: from 32k to 3.2M tokens
over the first 4 to 12 billion tokens); Megatron-LM's --rampup-batch-size.
"""

from __future__ import annotations

import math

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.units import format_count
from lockstep.decide.campaigns.operation import Operation
from lockstep.decide.planner.estimate import Estimate
from lockstep.decide.planner.estimate import estimate as estimate_layout
from lockstep.price.layout import Job, Layout
from lockstep.price.step import PARTS
from lockstep.simulate.failures.stragglers import Barrier
from lockstep.simulate.play import LogNormal

MOST_PHASES = 16
FORWARD_FRAC = 1 / 3
OVERHEADS = ("straggler", "data", "evaluation")


@dataclass(frozen=True, slots=True)
class Ramp:
    """From steps of `from_tokens` to full ones over the first `tokens` tokens."""

    from_tokens: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a run with one batch."""

    batch: int
    """Sequences per step."""
    tokens: float

    def steps(self, seq: int) -> float:
        """Optimizer steps, of sequences of `seq` tokens."""
        return self.tokens / (self.batch * seq)


def phases(job: Job, layout: Layout, tokens: float, ramp: Ramp | None) -> tuple[Phase, ...]:
    """The run on `tokens` as phases, the full batch last. Raises BadInput when the ramp does not fit."""
    full, seq = job.recipe.batch, job.sequence_units
    if ramp is None:
        return (Phase(full, tokens),)
    if not 0 < ramp.tokens <= tokens:
        raise BadInput(f"must be above 0 and at most the run's {format_count(tokens)}", "--ramp-tokens")
    unit = layout.batch_unit
    first = round(ramp.from_tokens / (seq * unit))
    if not (first >= 1 and first * unit < full):
        raise BadInput(
            f"the layout splits batches from {format_count(unit * seq)} tokens on, and a ramp ends at"
            f" {format_count(full * seq)}; got {format_count(ramp.from_tokens)}",
            "--ramp-from",
        )
    number = min(MOST_PHASES, full // unit - first)
    batches = [(first + (full // unit - first) * place // number) * unit for place in range(number)]
    growing = tuple(Phase(batch, ramp.tokens / number) for batch in batches)
    return growing if ramp.tokens == tokens else (*growing, Phase(full, tokens - ramp.tokens))


@dataclass(frozen=True, slots=True)
class Work:
    """A run without failures."""

    steps: float
    tokens: float
    parts_s: dict[str, float]
    """Seconds of the whole run by part: those of a step, then OVERHEADS."""

    @property
    def work_s(self) -> float:
        """All parts."""
        return math.fsum(self.parts_s.values())


def work(found: Estimate, tokens: float, operation: Operation, ramp: Ramp | None = None) -> Work:
    """The parts of a run on `tokens` tokens. Raises BadInput when the ramp does not fit the layout."""
    steps = 0.0
    parts_s = dict.fromkeys((*PARTS, *OVERHEADS), 0.0)
    for phase in phases(found.job, found.layout, tokens, ramp):
        number = phase.steps(found.job.sequence_units)
        for name, seconds in _step_parts_s(_with_batch(found, phase.batch), operation).items():
            parts_s[name] += number * seconds
        steps += number
    return Work(steps, tokens, parts_s)


def _with_batch(found: Estimate, batch: int) -> Estimate:
    """The estimate of the same layout with another batch."""
    if batch == found.job.recipe.batch:
        return found
    job = Job(found.job.model, replace(found.job.recipe, batch=batch), found.job.devices)
    return estimate_layout(job, found.cluster, found.layout)


def _step_parts_s(found: Estimate, operation: Operation) -> dict[str, float]:
    """Seconds of one step in service, by part."""
    parts_s = found.step.breakdown_s()
    waited_s = 0.0
    if operation.straggler_cv and found.job.devices > 1:
        law = LogNormal(parts_s["compute"], operation.straggler_cv)
        waited_s = Barrier().expected_s(law, found.job.devices) - law.mean_s
    step_s = found.step_time_s + waited_s
    read_s = 0.0
    if operation.data_Bps is not None:
        read_s = found.job.step_units * operation.sample_B / operation.data_Bps
    evaluation_s = 0.0
    if operation.eval_every is not None:
        evaluation_s = FORWARD_FRAC * operation.eval_tokens / found.tokens_per_s / operation.eval_every
    return parts_s | {"straggler": waited_s, "data": max(0.0, read_s - step_s), "evaluation": evaluation_s}
