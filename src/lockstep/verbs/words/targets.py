"""Words about how long to train, as on the command line, and the `Target` that they describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.errors import BadInput, located
from lockstep.units import parse_count, parse_number
from lockstep.verbs.words.question import positive
from lockstep.verbs.words.shared import TargetWords

if TYPE_CHECKING:
    from lockstep.campaigns import Target
    from lockstep.workload import Model

SCALING_LAW = "besiroglu"


def read_target(model: Model, words: TargetWords) -> Target | None:
    """How long to train, in one of three ways; None when nothing says so."""
    from lockstep.campaigns import for_compute, for_loss, for_tokens, in_batches
    from lockstep.campaigns import scaling_law as find_law

    tokens, loss, compute_optimal = words.get("tokens"), words.get("loss"), words.get("compute_optimal", False)
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
        target = for_tokens(positive(parse_count(tokens, "--tokens"), "--tokens"))
    else:
        law = find_law(scaling_law or SCALING_LAW, "--scaling-law")
        with located("--compute-optimal" if loss is None else "--loss"):
            target = for_compute(law, model) if loss is None else for_loss(law, model, parse_number(loss))
    if critical_batch_tokens is None:
        return target
    critical = positive(parse_count(critical_batch_tokens, "--critical-batch-tokens"), "--critical-batch-tokens")
    return in_batches(target, critical)
