"""Words about how long to train, as on the command line, and the `Target` that they describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lockstep.base.errors import BadInput, located
from lockstep.base.units import parse_count, parse_number
from lockstep.show.verbs.words.question import positive
from lockstep.show.verbs.words.shared import TargetWords

if TYPE_CHECKING:
    from lockstep.decide.campaigns import Target
    from lockstep.describe.workload import Model
    from lockstep.price.layout import Recipe

SCALING_LAW = "besiroglu"


def read_tokens(words: Mapping[str, Any], recipe: Recipe) -> float | None:
    """Tokens to train on: as given, or epochs of samples, packed or each padded to a sequence; None where unsaid."""
    tokens, samples, epochs = (words.get(name) for name in ("tokens", "samples", "epochs"))
    if samples is None:
        if epochs is not None:
            raise BadInput("epochs are passes over --samples, e.g. --samples 50k", "--epochs")
        return None if tokens is None else positive(parse_count(tokens, "--tokens"), "--tokens")
    if tokens is not None:
        raise BadInput("give either --tokens or --samples", "--samples")
    count = positive(parse_count(samples, "--samples"), "--samples")
    passes = 1.0 if epochs is None else positive(parse_number(epochs, "--epochs"), "--epochs")
    return passes * count * recipe.attended_tokens


def read_target(model: Model, words: TargetWords, recipe: Recipe) -> Target | None:
    """How long to train, in one of three ways; None when nothing says so."""
    from lockstep.decide.campaigns import for_compute, for_loss, for_tokens, in_batches
    from lockstep.decide.campaigns import scaling_law as find_law

    tokens, loss, compute_optimal = read_tokens(words, recipe), words.get("loss"), words.get("compute_optimal", False)
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
