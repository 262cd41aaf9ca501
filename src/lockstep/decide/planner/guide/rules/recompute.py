"""Can recomputation be cheaper?

Nothing recomputed, then the attention core alone, then whole layers: the first that fits. Full recomputation costs a
third of the FLOPs again; the core costs a few percent, and nothing where attention is fused and keeps no scores.
Source: V. Korthikanti et al., arXiv 2205.05198, section 5.
"""

from __future__ import annotations

from lockstep.base.units import format_size
from lockstep.decide.planner.guide.draft import RECOMPUTED, Draft, Finding, Rule, first_that_fits


def decide(draft: Draft) -> Finding:
    """Takes the least recomputation that fits."""
    if draft.job.transformer is None:
        return Finding("none", "convolutions keep their activations", draft)
    tried = [draft.change(recompute=each) for each in RECOMPUTED]
    sizes = {f"{name}_B": each.memory_B for name, each in zip(RECOMPUTED, tried, strict=True)}
    said = ", ".join(f"{name} {format_size(each.memory_B)}" for name, each in zip(RECOMPUTED, tried, strict=True))
    found = first_that_fits(tried) or tried[-1]
    capacity_B = draft.cluster.device.memory_B
    return Finding(found.layout.recompute, f"{said}; the device has {format_size(capacity_B)}", found, sizes)


RULE = Rule("recomputation", "How much should be recomputed?", "arXiv 2205.05198, section 5", decide)
