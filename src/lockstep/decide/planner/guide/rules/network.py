"""Is it bound by the network?

For each level of the cluster, seconds of traffic over seconds of kernels (the communication roofline); above 1 the
level binds whatever overlaps. Where that is the traffic of replicas or of experts, stages across the slow links send
less: their borders instead of gradients or tokens, with as many expert ranks as that leaves room for. The fewest stages
that bring the share to 1 are taken, or those that bring it lowest. Against the traffic of tensor parallelism, or where
there is no room for stages, a larger batch or faster links are left.
Source: D. Narayanan et al., arXiv 2104.04473, takeaways 1 and 2; J. Austin et al., How to Scale Your Model, 2025,
chapter on training.
"""

from __future__ import annotations

from lockstep.base.units import format_count, format_frac
from lockstep.decide.planner.guide.draft import Draft, Finding, Rule
from lockstep.decide.planner.guide.traffic import busiest
from lockstep.decide.planner.roofline import RooflineLevel
from lockstep.price.layout import divisors


def decide(draft: Draft) -> Finding:
    """Reads the communication roofline of the draft, and puts stages across links that replicas or experts overload."""
    if not draft.keeps_rules:
        return Finding("unknown", "this layout cannot run", draft)
    worst = busiest(draft)
    if not worst.bytes_B:
        return Finding("no", "nothing is sent", draft)
    said = f"{worst.name} traffic, mostly {worst.mostly}, takes {format_frac(worst.share)} of the kernels' time"
    numbers = {"traffic_share": worst.share}
    if worst.share <= 1:
        return Finding("no", said, draft, numbers)
    if worst.critical_batch is not None:
        said += f" (1 from {format_count(worst.critical_batch)} tokens per step on)"
    found, level = _deeper(draft, worst) if worst.mostly in ("dp", "ep") else (draft, worst)
    if found is draft:
        return Finding("yes", said, draft, numbers)
    words = [f"ep {found.layout.ep}"] if found.layout.ep != draft.layout.ep else []
    words += [f"{found.layout.pp} stages"] if found.layout.pp > draft.layout.pp else []
    said += f", with {' and '.join(words)} {format_frac(level.share)}"
    numbers |= {"staged_traffic_share": level.share}
    return Finding("yes, " + ", ".join(words), said, found, numbers)


def _deeper(draft: Draft, worst: RooflineLevel) -> tuple[Draft, RooflineLevel]:
    """The fewest stages with which traffic takes no longer than kernels, or those with the least; and their level."""
    found = (draft, worst)
    for spread in reversed(divisors(draft.layout.ep)):
        for deeper in draft.change(ep=spread).allowed("pp"):
            if deeper.fits and (level := busiest(deeper)).share < found[1].share:
                found = (deeper, level)
                if level.share <= 1:
                    return found
    return found


RULE = Rule("network", "Is the step bound by the network?", "arXiv 2104.04473, takeaways 1 and 2", decide)
