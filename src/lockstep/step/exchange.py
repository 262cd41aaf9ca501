"""Seconds of the experts' exchange in one pass of a layer: tokens dispatched to their experts, results combined.

    all-to-all     each of the k copies of a token travels by itself: T k h elements, balanced over the group
    by groups      with routing limited to M of G groups of experts (DeepSeek), a token crosses a level once for each of
                   its groups there, and is copied to its experts inside; levels work at the same time:

        max over levels of  (c - 1) latency + T h copies (1 - 1/c) bytes / bandwidth,    copies = min(k, M, c)

c children of a level in the group; at the level that splits a group of experts, copies = k. Dispatched tokens have
`dispatch_B` bytes per element, combined ones those of activations. T tokens on the rank, h hidden.

Sources: GShard (arXiv 2006.16668); DeepSeek-AI 2024 (arXiv 2412.19437), sections 2.1.2 (node-limited routing) and 3.2.2
(once across InfiniBand, then NVLink, both at once); 3.3.4 for dispatch in fp8.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lockstep.step.communication import Levels, Network, collective
from lockstep.step.layer import Shard
from lockstep.workload import Experts


def exchange_s(shard: Shard, network: Network, experts: Experts) -> Any:
    """Seconds of dispatch and combine of a micro-batch, forward or backward."""
    levels, elements = network.levels(("ep",)), shard.loose_tokens * shard.model.hidden
    sizes_B = (elements * shard.recipe.dispatched_B, elements * shard.clock.element_B)
    return sum(_one_way_s(levels, size_B, experts) for size_B in sizes_B)


def _one_way_s(levels: Levels, token_B: Any, experts: Experts) -> Any:
    """Seconds of one exchange, `token_B` bytes for one copy of every token of the rank."""
    if experts.top_groups == experts.groups:
        return collective("all-to-all", levels, token_B * experts.top_k)
    seconds: Any = 0.0
    apart: Any = 1
    for children, latency_s, bandwidth_Bps, _ in reversed(levels):
        apart = apart * children
        whole = np.minimum(np.minimum(experts.top_k, experts.top_groups), children)
        copies = np.where(apart <= experts.groups, whole, experts.top_k)
        moved_B = token_B * copies * (1.0 - 1.0 / children)
        seconds = np.maximum(seconds, (children - 1) * latency_s + moved_B / bandwidth_Bps)
    return seconds
