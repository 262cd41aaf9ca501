"""Would tensor parallelism leave the node?

Its all-reduces stand between every two products, so they need the fastest links: tensor parallelism up to the devices
of a node, the pipeline (or sharding) across nodes. A degree that does not divide the node straddles two as well.
Source: D. Narayanan et al., arXiv 2104.04473, takeaway 1.
"""

from __future__ import annotations

from lockstep.base.units import format_bandwidth
from lockstep.decide.planner.guide.draft import Draft, Finding, Rule


def decide(draft: Draft) -> Finding:
    """Takes the tensor-parallel degree back to what a node holds."""
    tp, node = draft.layout.tp, draft.node
    rates_Bps = [draft.cluster.bandwidth_per_device_Bps(level) for level in range(len(draft.cluster.levels))]
    numbers = {"tp": tp, "node": node, "inner_Bps": rates_Bps[0], "outer_Bps": rates_Bps[-1]}
    said = f"{format_bandwidth(rates_Bps[0])} per device inside {node}, {format_bandwidth(rates_Bps[-1])} outside"
    if node % tp == 0:
        return Finding("no", said, draft, numbers)
    kept = [each for each in draft.change(tp=1).allowed("tp", node) if node % each.layout.tp == 0]
    found = kept[-1] if kept else draft
    return Finding(f"yes, tp {found.layout.tp} is kept", said, found, numbers)


RULE = Rule("node", "Should tensor parallelism cross nodes?", "arXiv 2104.04473, takeaway 1", decide)
