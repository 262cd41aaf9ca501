"""How large a micro-batch, and accumulate how many?

Larger micro-batches make fuller products and fewer launches; the rest of a replica's share of the batch is accumulated.
The largest that fits is taken, and under a pipeline one that leaves four micro-batches per stage.
Source: D. Narayanan et al., arXiv 2104.04473, takeaway 3 (the best micro-batch depends on the bubble).
"""

from __future__ import annotations

from lockstep.base.units import format_size
from lockstep.decide.planner.guide.draft import Draft, Finding, Rule
from lockstep.decide.planner.space import MICRO_BATCHES

PER_STAGE = 4


def largest(draft: Draft) -> Draft:
    """The draft with the largest micro-batch that keeps the rules, fits, and leaves work for every stage."""
    found = draft
    for size in MICRO_BATCHES:
        larger = draft.change(micro_batch=size)
        filled = larger.layout.pp == 1 or larger.microbatches >= PER_STAGE * larger.layout.pp
        if size > draft.layout.micro_batch and filled and larger.keeps_rules and larger.fits:
            found = larger
    return found


def decide(draft: Draft) -> Finding:
    """Takes the largest micro-batch there is room for."""
    found = largest(draft)
    size, number = found.layout.micro_batch, found.microbatches
    said = f"micro-batches of {size} fill {format_size(found.memory_B)}; {number} of them make a step"
    return Finding(
        f"{size} x {number}", said, found, {"micro_batch": size, "accumulated": number, "memory_B": found.memory_B}
    )


RULE = Rule("micro-batch", "Which micro-batch size?", "arXiv 2104.04473, takeaway 3", decide)
