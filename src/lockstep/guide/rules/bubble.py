"""Are there enough micro-batches for the stages?

    bubble = (p - 1) / (m + p - 1)     interleaved over v chunks per stage:  (p - 1) / (v m + p - 1)
Four micro-batches per stage, the usual rule, leave 17.9 % at p = 8; 10 % take m >= 9 (p - 1). Interleaving divides the
bubble by v for v times the messages, and needs m to be a multiple of p.
Source: D. Narayanan et al., arXiv 2104.04473, section 2.2.
"""

from __future__ import annotations

from lockstep.guide.draft import Draft, Finding, Rule
from lockstep.units import format_frac

GOOD_FRAC = 0.10


def bubble_frac(stages: int, microbatches: int, chunks: int = 1) -> float:
    """Share of a step that a device idles, all passes being equal."""
    return (stages - 1) / (chunks * microbatches + stages - 1)


def decide(draft: Draft) -> Finding:
    """Interleaves with the fewest chunks that bring the bubble down, or the most that are possible."""
    stages, microbatches = draft.layout.pp, draft.microbatches
    if stages == 1:
        return Finding("no pipeline", "one stage has no bubble", draft)
    idle = bubble_frac(stages, microbatches)
    numbers = {"microbatches": microbatches, "bubble_frac": idle}
    said = f"{microbatches} micro-batches in {stages} stages idle {format_frac(idle)}"
    if idle <= GOOD_FRAC:
        return Finding("yes", said, draft, numbers)
    layers = range(2, -(-draft.job.layers // stages) + 1)
    cut = [each for each in (draft.change(schedule="interleaved", vpp=chunks) for chunks in layers) if each.keeps_rules]
    cut = [each for each in cut if each.fits]
    if not cut:
        return Finding("no", f"{said}, and no interleaving is possible", draft, numbers)
    good = (each for each in cut if bubble_frac(stages, microbatches, each.layout.vpp) <= GOOD_FRAC)
    found = next(good, cut[-1])
    left = bubble_frac(stages, microbatches, found.layout.vpp)
    said += f"; {found.layout.vpp} chunks per stage {format_frac(left)}"
    return Finding(f"no, vpp {found.layout.vpp}", said, found, numbers | {"interleaved_bubble_frac": left})


RULE = Rule("bubble", "Enough micro-batches for the stages?", "arXiv 2104.04473, section 2.2", decide)
