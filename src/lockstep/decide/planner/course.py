"""`Course`: passes over a data set, and the steps, tokens, time and money that they take.

    micro-batches of a rank and epoch   c = ceil(ceil(rows / b) / d)      b: rows of a micro-batch, d: replicas
    steps of an epoch                   u = ceil(c / a)                   a: micro-batches of a step
    steps of the run                    ceil(epochs * u)

in software that ends every epoch with a step of what is left (`Habits.closed_epochs`), which is c mod a micro-batches
where that is not 0. Elsewhere epochs run on into one another: ceil(epochs * rows / batch) steps.

Where answers are generated, s micro-batches of every replica at a time, a generation takes p = s b d / (answers of a
prompt) prompts, and such software drops in every epoch the prompts that do not fill one: c = floor(prompts / p) s i,
with i updates that use the same answers.

Rows of their own lengths are padded to the longest of their micro-batch, and replicas wait for the one with most tokens
in each micro-batch where they gather parameters (ZeRO-3), and else in each step: a step is priced with rows of the mean
of that over the order of one epoch, drawn with a fixed seed.

Source: transformers 5.24.0, trainer.py (set_initial_training_values, _inner_training_loop); accelerate 1,
data_loader.py (BatchSamplerShard); TRL 1.16.0, trainer/utils.py (RepeatSampler), grpo_trainer.py (_get_train_sampler).
"""

from __future__ import annotations

from math import ceil, lcm

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked
from lockstep.base.units import format_frac
from lockstep.decide.planner.samples import Samples
from lockstep.price.layout import Job, Layout, Recipe

ALIGNED = 8
"""Tokens to whose multiple the length of a mean row is rounded up."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a run."""

    steps: int
    steps_per_epoch: int
    closing: int
    """Of these, steps that end an epoch with fewer micro-batches."""
    closing_microbatches: int
    """Micro-batches of such a step; 0 where there are none."""
    tokens: float
    """Read in all epochs, without padding and what is cut."""
    dropped: int
    """Samples that are left out of every epoch."""
    row_tokens: int
    """Tokens of a row with its padding, of the replica that the others wait for."""
    padding_frac: float
    """Of the tokens that are computed."""
    cut_frac: float
    """Of the tokens of the samples."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)

    def __str__(self) -> str:
        epoch = f"{self.steps_per_epoch:,} an epoch"
        epoch += f", the last of {_counted(self.closing_microbatches, 'micro-batch', 'es')}" * bool(self.closing)
        parts = [epoch] + [f"{_counted(self.dropped, 'sample')} dropped in each"] * bool(self.dropped)
        if self.padding_frac > SEEN:
            parts += [
                f"{format_frac(self.padding_frac, 2)} padding",
                f"steps wait for rows of {self.row_tokens:,} tokens",
            ]
        parts += [f"{format_frac(self.cut_frac, 2)} of the tokens cut off"] * (self.cut_frac > SEEN)
        return f"{_counted(self.steps, 'step')} ({'; '.join(parts)})"


SEEN = 5e-4
"""Shares of padding and of what is cut that are said."""


def _counted(number: int, thing: str, plural: str = "s") -> str:
    return f"{number:,} {thing}{plural if number > 1 else ''}"


@dataclass(frozen=True, eq=False)
class Course:
    """`epochs` passes over `count` samples: each fills a sequence, or has its own length."""

    count: float
    epochs: float = 1.0
    samples: Samples | None = None
    """Their lengths; None where each is as long as the recipe says."""
    packing: str = "none"

    @property
    def pads(self) -> bool:
        """Whether rows are as long as the longest of their micro-batch, so that a larger one has more padding."""
        return self.samples is not None and self.packing == "none"

    def recipe(self, recipe: Recipe) -> Recipe:
        """The recipe for the longest rows, with the attention of the samples inside them."""
        if self.samples is None:
            return recipe
        seq = min(recipe.seq, self.samples.longest) if self.packing in ("none", "free") else recipe.seq
        attended = self.samples.rows(self.packing, recipe.seq).attended
        return replace(recipe, seq=seq, sample_tokens=None if attended is None else ceil(attended))

    def tokens(self, recipe: Recipe) -> float:
        """Tokens of all epochs that are read, without padding; before what software drops."""
        read = self.epochs * self.count * recipe.objective.answers
        if self.samples is None:
            return read * recipe.attended_tokens
        cut_frac = self.samples.rows(self.packing, recipe.seq).cut_frac
        return read * (1 - cut_frac) * float(self.samples.lengths.mean())

    def steps(self, job: Job, layout: Layout) -> Steps:
        """The steps in a layout of the software. Raises BadInput where the samples do not fill a generation."""
        recipe = job.recipe
        each = int(layout.grid().microbatches(recipe.batch))
        closed = recipe.habits.closed_epochs
        per_rank, dropped = self._microbatches(recipe, layout, each) if closed else (self._shared(recipe, layout), 0)
        per_epoch, left = max(1, ceil(per_rank / each)), per_rank % each if closed else 0
        steps = max(1, ceil(self.epochs * (per_epoch if closed else per_rank / each)))
        closing = steps // per_epoch if left else 0
        tokens = self.tokens(recipe) * (1 - dropped / self.count)
        counts = steps, per_epoch, closing, int(left) if closing else 0, tokens, dropped
        return Steps(*counts, *self._padded(recipe, layout, each))

    def _shared(self, recipe: Recipe, layout: Layout) -> float:
        """Micro-batches of a rank in an epoch, as a fraction."""
        rows = self.count
        if self.samples is not None:
            rows *= len(self.samples.rows(self.packing, recipe.seq).tokens) / len(self.samples.lengths)
        elif recipe.sample_tokens is not None:
            rows *= recipe.attended_tokens / recipe.seq
        return rows * recipe.objective.answers / (layout.micro_batch * layout.dp)

    def _microbatches(self, recipe: Recipe, layout: Layout, each: int) -> tuple[int, int]:
        """Whole micro-batches of a rank in an epoch, and the samples that are dropped."""
        objective = recipe.objective
        if objective.generations == 1:
            return ceil(ceil(round(self._shared(recipe, layout) * layout.dp, SIGNIFICANT)) / layout.dp), 0
        micro = layout.micro_batch * layout.dp
        held = objective.generation or (micro * each if objective.in_sequences else each)
        steps = held // micro if objective.in_sequences else held
        prompts, rest = divmod(micro * steps, objective.generations)
        if rest or not steps:
            answers = f"{micro * steps:,} answers are generated at a time, which are not whole prompts of"
            raise BadInput(f"{answers} generations={objective.generations}", "--train")
        filled = int(self.count) // prompts
        if not filled:
            needs = f"a generation takes {prompts:,} prompts ({micro * steps:,} answers)"
            raise BadInput(f"{needs}, and software drops those that do not fill one; got {self.count:g}", "--samples")
        return filled * objective.iterations * steps, int(self.count) - filled * prompts

    def _padded(self, recipe: Recipe, layout: Layout, each: int) -> tuple[int, float, float]:
        """Tokens of a row of the replica that the others wait for, the share of padding in all rows, and of what is
        cut."""
        if self.samples is None:
            return recipe.seq, 0.0, 0.0
        found = self.samples.rows(self.packing, recipe.seq)
        tokens = found.tokens
        if self.packing == "max-length":
            return recipe.seq, 1 - float(tokens.mean()) / recipe.seq, found.cut_frac
        rows = max(1, layout.micro_batch // recipe.objective.pair)
        step = each * layout.dp * rows
        order = np.random.default_rng(0).permutation(tokens)
        order = order[: len(order) // step * step] if len(order) >= step else np.resize(order, step)
        steps = order.reshape(-1, each, layout.dp, rows)
        lengths = steps.mean(axis=-1) if self.packing in JOINED else steps.max(axis=-1)
        waited = lengths.max(axis=2).mean() if layout.zero == GATHERS else lengths.mean(axis=1).max(axis=1).mean()
        aligned = lcm(ALIGNED, layout.tp, 2 * layout.cp)
        row_tokens = min(recipe.seq, ceil(float(waited) / aligned) * aligned)
        return row_tokens, max(0.0, 1 - float(order.mean() / lengths.mean())), found.cut_frac


GATHERS = 3
"""The ZeRO stage that gathers parameters in every micro-batch."""
JOINED = ("free", "bfd", "bfd-split")
"""Packings whose micro-batches are one row without padding."""
SIGNIFICANT = 9
"""Decimals of a number of micro-batches that are more than rounding."""
