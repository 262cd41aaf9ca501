"""`Ramp`: a batch that grows while training begins, in equal portions of tokens, up to the full batch.

    steps = sum over phases of  tokens_i / batch_i
Small batches make better use of tokens while the loss falls fast (the critical batch is small then), and cost more
seconds per token. Batches of a ramp are what the layout can split: multiples of dp x micro-batch (x pp where the
schedule is interleaved).

Source: T. Brown et al., "Language models are few-shot learners", 2020, appendix B (GPT-3: from 32k to 3.2M tokens
over the first 4 to 12 billion tokens); Megatron-LM's --rampup-batch-size.
"""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.errors import BadInput
from lockstep.layout import Job, Layout
from lockstep.units import format_count

MOST_PHASES = 16


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
        """Optimizer steps."""
        return self.tokens / (self.batch * seq)


def phases(job: Job, layout: Layout, tokens: float, ramp: Ramp | None) -> tuple[Phase, ...]:
    """The run on `tokens` as phases, the full batch last. Raises BadInput when the ramp does not fit."""
    full, seq = job.recipe.batch, job.recipe.seq
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
