"""Seconds of communication that a layer's passes wait for: tensor, context and expert parallel traffic per micro-batch.

    tensor    two all-reduces of T*h elements forward and two backward; with sequence parallelism each becomes an
              all-gather and a reduce-scatter of the same bytes  (arXiv 1909.08053; arXiv 2205.05198 section 4.2)
    context   cp-1 ring steps of the keys and values forward, of them and their gradients backward, each hidden behind
              1/cp of the attention core                                 (Ring Attention, arXiv 2310.01889)
    expert    two all-to-alls of T*k*h elements forward and two backward (GShard, arXiv 2006.16668), balanced routing

Symbols as in `layer.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.step.communication import Network, collective
from lockstep.step.layer import LayerWork, Shard
from lockstep.workload import Experts

CHUNKS = 4
"""Pieces into which overlapped tensor-parallel traffic is cut; the last one is always exposed."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Exposed seconds of one layer and micro-batch by kind of traffic, forward and backward."""

    tp_forward_s: Any
    tp_backward_s: Any
    cp_forward_s: Any
    cp_backward_s: Any
    ep_forward_s: Any
    ep_backward_s: Any

    @property
    def forward_s(self) -> Any:
        """Exposed seconds of a forward pass."""
        return self.tp_forward_s + self.cp_forward_s + self.ep_forward_s

    @property
    def backward_s(self) -> Any:
        """Exposed seconds of a backward pass."""
        return self.tp_backward_s + self.cp_backward_s + self.ep_backward_s


def layer_waits(shard: Shard, network: Network, work: LayerWork, moe: bool) -> Waits:
    """Exposed communication of one layer with the kernel work `work`."""
    tp_s = _tensor(shard, network)
    forward_s = _exposed(tp_s, work.passes.forward.matmul_s, shard.recipe.overlap_tp)
    backward_s = _exposed(tp_s, work.passes.backward.matmul_s, shard.recipe.overlap_tp)
    cp_forward_s, cp_backward_s = _context(shard, network, work)
    ep_s = _expert(shard, network, shard.model.experts) if moe and shard.model.experts else 0.0
    return Waits(forward_s, backward_s, cp_forward_s, cp_backward_s, ep_s, ep_s)


def _exposed(comm_s: Any, beside_s: Any, overlap: bool) -> Any:
    """What is left of `comm_s` beside `beside_s` seconds of products that it can hide behind."""
    return np.maximum(comm_s / CHUNKS, comm_s - beside_s) if overlap else comm_s


def _tensor(shard: Shard, network: Network) -> Any:
    """Seconds of one pass's tensor-parallel traffic: two all-reduces, or all-gather and reduce-scatter pairs."""
    levels = network.levels(("tp",))
    size_B = shard.tokens * shard.model.hidden * shard.clock.element_B
    split = collective("all-gather", levels, size_B) + collective("reduce-scatter", levels, size_B)
    rounds = 1.0 if shard.model.parallel_block else 2.0
    return rounds * np.where(shard.grid.sequence_parallel > 0, split, collective("all-reduce", levels, size_B))


def _context(shard: Shard, network: Network, work: LayerWork) -> tuple[Any, Any]:
    """Exposed seconds of ring attention, forward and backward."""
    attention, cp = shard.model.attention, shard.grid.cp
    kv_dim = shard.kv_heads * (attention.head_dim + attention.value_dim)
    step_s = network.send("cp", shard.tokens * kv_dim * shard.clock.element_B)
    hidden_s = [side.device_s / cp for side in (work.core.forward, work.core.backward)]
    forward_s = (cp - 1) * np.maximum(0.0, step_s - hidden_s[0])
    return forward_s, (cp - 1) * np.maximum(0.0, 2.0 * step_s - hidden_s[1])


def _expert(shard: Shard, network: Network, experts: Experts) -> Any:
    """Seconds of dispatch and combine: two all-to-alls of the routed tokens."""
    size_B = shard.loose_tokens * experts.top_k * shard.model.hidden * shard.clock.element_B
    return 2.0 * collective("all-to-all", network.levels(("ep",)), size_B)
