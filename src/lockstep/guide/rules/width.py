"""Is one layer too wide for one device?

Sharding spreads states over all devices, yet each device still computes whole layers: one layer's gathered parameters
and gradients and one sequence's activations must fit, everything else sharded and recomputed. Tensor parallelism cuts
the layer itself. The smallest degree that fits is enough: its traffic is the only one that nothing hides.
Source: D. Narayanan et al., arXiv 2104.04473, section 3.2 (tensor and pipeline parallelism).
"""

from __future__ import annotations

from lockstep.guide.draft import Draft, Finding, Rule, first_that_fits
from lockstep.units import format_size

MOST = 64


def decide(draft: Draft) -> Finding:
    """Finds the smallest tensor-parallel degree with which a device can do its part of a layer."""
    needed_B, capacity_B = draft.thinnest().memory_B, draft.cluster.device.memory_B
    numbers = {"least_B": needed_B, "capacity_B": capacity_B}
    said = f"all sharded and recomputed, a device holds {format_size(needed_B)} of {format_size(capacity_B)}"
    if needed_B <= capacity_B:
        return Finding("no", said, draft, numbers)
    wider = draft.allowed("tp", MOST)
    found = first_that_fits(each.thinnest() for each in wider)
    if found is None:
        return Finding("yes", f"{said}, and no tensor-parallel degree mends that", draft, numbers)
    return Finding(f"yes, tp {found.layout.tp}", said, draft.change(tp=found.layout.tp), numbers)


RULE = Rule("width", "A layer too wide for a device?", "arXiv 2104.04473, section 3.2", decide)
