"""Words about how long to train, as on the command line, and the `Target` that they describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput, UnknownName, located
from lockstep.base.types.plain import Json
from lockstep.base.units import parse_count, parse_number
from lockstep.show.verbs.words.question import positive, whole
from lockstep.show.verbs.words.shared import TargetWords

if TYPE_CHECKING:
    from lockstep.decide.campaigns import Target
    from lockstep.decide.planner.course import Course
    from lockstep.describe.workload import Model
    from lockstep.price.layout import Recipe

SCALING_LAW = "besiroglu"
DATA = ("tokens", "samples", "epochs", "lengths", "packing")
"""Words for what is read."""


def read_course(words: Json, recipe: Recipe) -> Course | None:
    """Passes over a data set; None where no samples and no lengths are given. Raises BadInput, UnknownName."""
    from lockstep.decide.planner.course import Course
    from lockstep.decide.planner.samples import PACKINGS, read_samples

    tokens, samples, epochs, lengths, packing = (words.get(name) for name in DATA)
    packing = None if packing == PACKINGS[0] else packing
    if samples is None and lengths is None:
        for flag, value, what in (("--epochs", epochs, "passes over"), ("--packing", packing, "rows made of")):
            if value is not None:
                raise BadInput(f"{flag.removeprefix('--')}: {what} --samples, e.g. --samples 50k", flag)
        return None
    if tokens is not None:
        raise BadInput("give either --tokens or --samples", "--samples")
    passes = 1.0 if epochs is None else positive(parse_number(epochs, "--epochs"), "--epochs")
    count = None if samples is None else positive(parse_count(samples, "--samples"), "--samples")
    if lengths is None:
        if packing is not None:
            raise BadInput("needs --lengths; samples of one length are packed by --sample-tokens", "--packing")
        return Course(count or 0.0, passes)
    for flag, clash in (("--sample-tokens", recipe.sample_tokens), ("--train", recipe.objective.generation_frac)):
        if clash:
            raise BadInput("does not go together with --lengths", flag)
    if packing is not None and packing not in PACKINGS:
        raise UnknownName("packing", packing, PACKINGS, "--packing")
    given = read_samples(lengths, None if samples is None else whole(samples, "--samples"))
    return Course(given.count, passes, given, packing or PACKINGS[0])


def read_tokens(words: Json, recipe: Recipe) -> float | None:
    """Tokens to train on: as given, or those of epochs of samples; None where unsaid."""
    course, tokens = read_course(words, recipe), words.get("tokens")
    if course is not None:
        return course.tokens(recipe)
    return None if tokens is None else positive(parse_count(tokens, "--tokens"), "--tokens")


def read_target(model: Model, words: TargetWords, recipe: Recipe) -> Target | None:
    """How long to train, in one of three ways; None when nothing says so."""
    from lockstep.decide.campaigns import for_compute, for_loss, for_tokens, in_batches
    from lockstep.decide.campaigns import scaling_law as find_law

    tokens, loss, compute_optimal = (
        read_tokens(dict(words), recipe),
        words.get("loss"),
        words.get("compute_optimal", False),
    )
    scaling_law, critical_batch_tokens = words.get("scaling_law"), words.get("critical_batch_tokens")
    ways = (tokens is not None) + (loss is not None) + compute_optimal
    if ways > 1:
        raise BadInput("give one of --tokens, --loss and --compute-optimal", "--tokens")
    if scaling_law is not None and loss is None and not compute_optimal:
        raise BadInput("needs --loss or --compute-optimal", "--scaling-law")
    if not ways:
        if critical_batch_tokens is not None:
            raise BadInput("needs --tokens, --loss or --compute-optimal", "--critical-batch-tokens")
        return None
    if tokens is not None:
        target = for_tokens(tokens)
    else:
        law = find_law(scaling_law or SCALING_LAW, "--scaling-law")
        with located("--compute-optimal" if loss is None else "--loss"):
            target = for_compute(law, model) if loss is None else for_loss(law, model, parse_number(loss))
    if critical_batch_tokens is None:
        return target
    critical = positive(parse_count(critical_batch_tokens, "--critical-batch-tokens"), "--critical-batch-tokens")
    return in_batches(target, critical)
