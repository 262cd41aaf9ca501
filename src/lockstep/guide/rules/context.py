"""Is one sequence too long for a device?

What is left when all states are sharded and all layers recomputed grows with the sequence: its inputs to every layer
and one layer's inside. Context parallelism cuts the sequence; keys and values go round a ring.
Source: Ring Attention (H. Liu et al., arXiv 2310.01889); A. Grattafiori et al., arXiv 2407.21783, section 3.3.2.
"""

from __future__ import annotations

from lockstep.guide.draft import Draft, Finding, Rule, first_that_fits
from lockstep.units import format_count, format_size

MOST = 64


def decide(draft: Draft) -> Finding:
    """Finds the smallest context-parallel degree with which one sequence fits."""
    if draft.job.transformer is None:
        return Finding("no", "images, not sequences", draft)
    held = draft.thinnest().memory
    one_B, total_B = float(held.activations_B + held.buffers_B), float(held.total_B)
    numbers = {"sequence_B": one_B, "total_B": total_B, "capacity_B": held.capacity_B}
    length = f"{format_count(draft.job.recipe.seq)} tokens"
    said = f"one sequence of {length} takes {format_size(one_B)} at the least, {format_size(total_B)} with its states"
    if held.fits:
        return Finding("no", said, draft, numbers)
    found = first_that_fits(each.thinnest() for each in draft.allowed("cp", MOST))
    if found is None:
        return Finding("no", f"{said}; cutting the sequence does not mend that", draft, numbers)
    return Finding(f"yes, cp {found.layout.cp}", said, draft.change(cp=found.layout.cp), numbers)


RULE = Rule("context", "A sequence too long for a device?", "Ring Attention, arXiv 2310.01889", decide)
