"""`room`: what the memory that a layout leaves free could be spent on, each change alone.

Of every change that costs memory the largest that still fits: micro-batches and sequences that are doubled, less
recomputation, of fewer layers or less of each, states on fewer ranks or off the host, wider gradients and moments, a
base that is not quantised, all parameters instead of adapters.
"""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked
from lockstep.decide.planner.estimate import Estimate, estimate
from lockstep.describe.workload import RECOMPUTE, Transformer
from lockstep.price.layout import OFFLOAD, Job, Layout, Recipe, broken_by

LONGEST = 2**20
"""Tokens up to which sequences are doubled."""


@dataclass(frozen=True, slots=True)
class Use:
    """A change that still fits."""

    words: str
    """As on the command line."""
    memory_B: float
    tokens_per_s: float

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def room(found: Estimate) -> tuple[Use, ...]:
    """What would still fit, by the speed that it gives; nothing where the layout itself does not fit."""
    if not bool(found.memory.fits):
        return ()
    uses = [use for steps in _changes(found.job.recipe, found.layout, found.job) if (use := _largest(found, steps))]
    return tuple(sorted(uses, key=lambda one: -one.tokens_per_s))


Change = tuple[str, Recipe, Layout]


def _largest(found: Estimate, steps: Iterator[Change]) -> Use | None:
    """The last of ever larger changes that fits; None where the first does not."""
    last: Use | None = None
    for words, recipe, layout in steps:
        job = replace(found.job, recipe=recipe)
        if broken_by(layout, job):
            break
        one = estimate(job, found.cluster, layout)
        if not bool(one.memory.fits):
            break
        last = Use(words, float(one.memory.total_B), one.tokens_per_s)
    return last


def _changes(recipe: Recipe, layout: Layout, job: Job) -> Iterator[Iterator[Change]]:
    yield _doubled_batches(recipe, layout)
    if isinstance(job.model, Transformer):
        if not job.images:
            yield _doubled_sequences(recipe, layout)
        less = RECOMPUTE[: RECOMPUTE.index(layout.recompute)][::-1]
        yield ((f"--recompute {one}", recipe, replace(layout, recompute=one)) for one in less)
        if layout.recompute == "full" and not recipe.offload_layers:
            yield _fewer_recomputed(recipe, layout, job.layers // (len(layout.stages) or layout.pp * layout.vpp))
    fewer = range(layout.zero - 1, -1, -1)
    yield ((f"--zero {one}", recipe, replace(layout, zero=one)) for one in fewer)
    nearer = OFFLOAD[: OFFLOAD.index(layout.offload)][::-1]
    yield ((f"--offload {one}", recipe, replace(layout, offload=one)) for one in nearer)
    yield from (iter([(words, changed, layout)]) for words, changed in _recipes(recipe))


def _doubled_batches(recipe: Recipe, layout: Layout) -> Iterator[Change]:
    size = 2 * layout.micro_batch
    while recipe.batch % (layout.dp * size) == 0:
        yield f"--micro-batch {size}", recipe, replace(layout, micro_batch=size)
        size *= 2


def _doubled_sequences(recipe: Recipe, layout: Layout) -> Iterator[Change]:
    seq = 2 * recipe.seq
    while seq <= LONGEST:
        yield f"--seq {seq}", replace(recipe, seq=seq), layout
        seq *= 2


def _fewer_recomputed(recipe: Recipe, layout: Layout, layers: int) -> Iterator[Change]:
    """Three, two and one quarter of the layers of a stage or chunk recomputed, as far as that is fewer."""
    counts = dict.fromkeys(-(-layers * quarters // 4) for quarters in (3, 2, 1))
    for count in counts:
        if count < (recipe.recompute_layers or layers):
            yield f"--recompute-layers {count}", replace(recipe, recompute_layers=count), layout


def _recipes(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    """Recipes that keep more."""
    if recipe.adapters is not None:
        if recipe.base is not None:
            yield "without --base", replace(recipe, base=None)
        if recipe.base is None and recipe.objective.forwards == 1:
            yield "--train full", replace(recipe, train="full")
        return
    if recipe.gradient_B < 4:
        yield "--gradient-bytes 4", replace(recipe, gradient_B=4.0)
    if recipe.states.matrix_B < 12:
        yield "--optimizer adamw", replace(recipe, optimizer="adamw")
