"""Is one sequence too long for a device?

What is left when all states are sharded and all layers recomputed grows with the sequence: its inputs to every layer
and one layer's inside. Inside a node tensor parallelism cuts both, with norms and residual split along the sequence;
beyond it context parallelism cuts the sequence, and keys and values go round a ring.
Source: A. Grattafiori et al., arXiv 2407.21783, section 3.3.2 (tp 8, then cp 16 for 131,072 tokens); Ring Attention
(H. Liu et al., arXiv 2310.01889).
"""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.base.units import format_count, format_size
from lockstep.decide.planner.guide.draft import Draft, Finding, Rule, first_that_fits

MOST = 64


def decide(draft: Draft) -> Finding:
    """Finds the smallest degrees with which one sequence fits: the node for tp, then cp."""
    if draft.job.images:
        return Finding("no", "images, not sequences", draft)
    held = draft.thinnest().memory
    one_B, total_B = float(held.activations_B + held.buffers_B), float(held.total_B)
    numbers = {"sequence_B": one_B, "total_B": total_B, "capacity_B": held.capacity_B}
    length = f"{format_count(draft.job.recipe.seq)} tokens"
    said = f"one sequence of {length} takes {format_size(one_B)} at least, {format_size(total_B)} with its states"
    if held.fits:
        return Finding("no", said, draft, numbers)
    found = first_that_fits(each.thinnest() for each in _cuts(draft))
    if found is None:
        return Finding("yes", f"{said}; no way of splitting it fits either", draft, numbers)
    cut = draft.change(tp=found.layout.tp, cp=found.layout.cp)
    words = [f"{name} {getattr(cut.layout, name)}" for name in ("tp", "cp") if getattr(cut.layout, name) > 1]
    return Finding("yes, " + ", ".join(words), said, cut, numbers)


def _cuts(draft: Draft) -> Iterator[Draft]:
    """Wider tensor parallelism inside the node, then, with the widest, context parallelism."""
    wider = draft.inside()
    yield from wider
    yield from (wider[-1] if wider else draft).allowed("cp", MOST)


RULE = Rule(
    "context", "Is a sequence too long for one device?", "arXiv 2407.21783, section 3.3.2; arXiv 2310.01889", decide
)
