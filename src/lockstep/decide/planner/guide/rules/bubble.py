"""Are there enough micro-batches for the stages?

    bubble = (p - 1) / (m + p - 1)     interleaved over v chunks per stage:  (p - 1) / (v m + p - 1)
Four micro-batches per stage, the usual rule, leave 17.9 % at p = 8; 10 % take m >= 9 (p - 1). Interleaving divides the
bubble by v for v times the messages, and needs m >= p in m // p equal groups: worth it where the messages take less.
Source: D. Narayanan et al., arXiv 2104.04473, section 2.2.
"""

from __future__ import annotations

from lockstep.base.units import format_frac
from lockstep.decide.planner.guide.draft import Draft, Finding, Rule
from lockstep.decide.planner.guide.traffic import busiest

GOOD_FRAC = 0.10


def bubble_frac(stages: int, microbatches: int, chunks: int = 1) -> float:
    """Share of a step that a device idles, all passes being equal."""
    return (stages - 1) / (chunks * microbatches + stages - 1)


def decide(draft: Draft) -> Finding:
    """Interleaves where that saves more waiting than it adds in messages."""
    stages, microbatches = draft.layout.pp, draft.microbatches
    if stages == 1:
        return Finding("no pipeline", "one stage has no bubble", draft)
    idle = bubble_frac(stages, microbatches)
    numbers = {"microbatches": microbatches, "bubble_frac": idle}
    said = f"{microbatches} micro-batches in {stages} stages idle {format_frac(idle)}"
    if idle <= GOOD_FRAC:
        return Finding("yes", said, draft, numbers)
    found = _interleaved(draft, idle)
    if found is draft:
        return Finding("no", f"{said}, and interleaving is not possible or sends more than it saves", draft, numbers)
    left = bubble_frac(stages, microbatches, found.layout.vpp)
    said += f"; {found.layout.vpp} chunks per stage {format_frac(left)}"
    return Finding(f"no, vpp {found.layout.vpp}", said, found, numbers | {"interleaved_bubble_frac": left})


def _interleaved(draft: Draft, idle: float) -> Draft:
    """The fewest chunks with a good bubble, or the most; each must save more of the step than its messages take."""
    stages, microbatches = draft.layout.pp, draft.microbatches
    if not draft.keeps_rules or microbatches < stages:
        return draft
    found, before = draft, busiest(draft).share
    for chunks in range(2, -(-draft.job.layers // stages) + 1):
        cut = draft.change(schedule="interleaved", vpp=chunks)
        left = bubble_frac(stages, microbatches, chunks)
        if cut.keeps_rules and cut.fits and busiest(cut).share - before < idle - left:
            found = cut
            if left <= GOOD_FRAC:
                break
    return found


RULE = Rule("bubble", "Are there enough micro-batches for the stages?", "arXiv 2104.04473, section 2.2", decide)
