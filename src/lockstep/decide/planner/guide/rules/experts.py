"""Has the model experts?

Then most parameters are theirs and each token needs only a few: spread them over data-parallel ranks, which costs two
all-to-alls per layer and pass. An all-to-all moves top_k copies of every token, so it stays inside the node as long as
one layer's experts do.
Source: GShard (D. Lepikhin et al., arXiv 2006.16668), section 3; DeepSpeed-MoE (S. Rajbhandari et al., arXiv
2201.05596).
"""

from __future__ import annotations

from lockstep.base.units import format_count, format_frac
from lockstep.decide.planner.guide.draft import Draft, Finding, Rule, first_that_fits
from lockstep.describe.workload import parameters
from lockstep.price.layout import divisors


def decide(draft: Draft) -> Finding:
    """Spreads experts over the ranks of a node; over more nodes only when they do not fit."""
    experts = draft.job.num_experts
    if not experts:
        return Finding("no", "the model is dense", draft)
    counted = parameters(draft.job.model)
    share = 1 - counted.active / counted.total
    said = (
        f"{experts} experts; {format_frac(share)} of {format_count(counted.total)} parameters are idle for each token"
    )
    numbers = {"experts": experts, "resting_frac": share}
    spreads = [draft.change(ep=ep) for ep in divisors(experts) if draft.job.devices % ep == 0]
    kept = [each for each in spreads if each.keeps_rules]
    inside = [each for each in kept if each.fills_nodes]
    outside = [each for each in kept if each not in inside]
    inside.reverse()
    found = first_that_fits(each.thinnest() for each in [*inside[:1], *outside])
    chosen = draft.change(ep=found.layout.ep) if found else (inside or kept or [draft])[0]
    return Finding(f"yes, ep {chosen.layout.ep}", said, chosen, numbers)


RULE = Rule(
    "experts", "Does the model have experts?", "GShard, arXiv 2006.16668; DeepSpeed-MoE, arXiv 2201.05596", decide
)
