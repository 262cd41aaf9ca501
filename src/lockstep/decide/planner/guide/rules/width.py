"""Is one layer too wide for one device?

Sharding spreads states over all devices, yet each device still computes whole layers: one layer's gathered parameters
and whole gradients must fit beside its share of the states, sequences apart. Tensor parallelism cuts the layer itself.
The smallest degree that fits is enough: its traffic is the one that hides worst.
Source: D. Narayanan et al., arXiv 2104.04473, section 3.2 (tensor and pipeline parallelism).
"""

from __future__ import annotations

from dataclasses import replace

from lockstep.base.units import format_size
from lockstep.decide.planner.guide.draft import Draft, Finding, Rule

MOST = 64


def decide(draft: Draft) -> Finding:
    """Finds the smallest tensor-parallel degree with which a device can do its part of a layer."""
    needed_B, capacity_B = _weights_B(draft), draft.cluster.device.memory_B
    numbers = {"weights_B": needed_B, "capacity_B": capacity_B}
    said = (
        f"not counting sequences, a device holds {format_size(needed_B)} of {format_size(capacity_B)} while it runs one"
    )
    if needed_B <= capacity_B:
        return Finding("no", said, draft, numbers)
    found = next((each for each in draft.allowed("tp", MOST) if _weights_B(each) <= capacity_B), None)
    if found is None:
        return Finding("yes", f"{said}, and no tensor-parallel degree fixes that", draft, numbers)
    return Finding(f"yes, tp {found.layout.tp}", said, found, numbers)


def _weights_B(draft: Draft) -> float:
    """Bytes of a device that shards and recomputes all it can, of a sequence of one token."""
    short = replace(draft.job, recipe=replace(draft.job.recipe, seq=1))
    return replace(draft, job=short).thinnest().memory_B


RULE = Rule("width", "Is a layer too wide for one device?", "arXiv 2104.04473, section 3.2", decide)
