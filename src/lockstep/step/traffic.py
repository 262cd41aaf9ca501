"""Seconds of communication that a layer's passes wait for: tensor, context and expert parallel traffic per micro-batch.

    tensor    two all-reduces of T*h elements forward and two backward; with sequence parallelism each becomes an
              all-gather and a reduce-scatter of the same bytes  (arXiv 1909.08053; arXiv 2205.05198 section 4.2).
              Overlapped, either all of it hides behind products cut in pieces, or the reductions of the backward pass
              behind the weight-gradient product of the same layer
    context   cp-1 ring steps of the keys and values forward, of them and their gradients backward, each hidden behind
              1/cp of the attention core                                 (Ring Attention, arXiv 2310.01889)
    expert    dispatch and combine forward, and again backward: two all-to-alls of T*k*h elements (GShard, arXiv
              2006.16668), balanced routing; `exchange.py` where routing is limited to groups. Beside S seconds of
              shared experts, max(X - S, share X) of X is exposed; what cells of a pipeline hide: `pipeline/times.py`

Symbols as in `layer.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.step.communication import Network, collective
from lockstep.step.exchange import exchange_s
from lockstep.step.layer import LayerWork, Shard

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
    ep_hidden_forward_s: Any
    ep_hidden_backward_s: Any
    hidden_forward_s: Any
    """Tensor and context traffic behind the kernels of a pass on links that data-parallel traffic needs too."""
    hidden_backward_s: Any

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
    ep_s = exchange_s(shard, network, shard.model.experts) if moe and shard.model.experts else 0.0
    ep_hidden_s = [_beside_shared(shard, ep_s, side.device_s) for side in (work.shared.forward, work.shared.backward)]
    exposed_s = [ep_s - one_s for one_s in ep_hidden_s]
    tensor_s = _tensor_traffic(shard, network)
    tp_s = _tensor(shard, tensor_s, work, ep_hidden_s)
    ring_s, cp_s = _context(shard, network, work)
    hidden_s: list[Any] = [0.0, 0.0]
    for axis, all_s, left_s in (
        ("tp", (sum(tensor_s), sum(tensor_s)), tp_s),
        ("cp", ring_s, cp_s),
    ):
        if any(one_s is not other_s for one_s, other_s in zip(all_s, left_s, strict=True)):
            met = network.meets_data((axis,))
            hidden_s = [
                so_far_s + np.where(met, one_s - other_s, 0.0)
                for so_far_s, one_s, other_s in zip(hidden_s, all_s, left_s, strict=True)
            ]
    return Waits(*tp_s, *cp_s, *exposed_s, *ep_hidden_s, *hidden_s)


def _tensor(shard: Shard, moved_s: tuple[Any, Any], work: LayerWork, taken_s: Sequence[Any]) -> tuple[Any, Any]:
    """Exposed seconds of tensor-parallel traffic, forward and backward, beside products that hide `taken_s` already."""
    gather_s, reduce_s = moved_s
    total_s, passes = gather_s + reduce_s, work.passes
    match shard.recipe.overlap_tp:
        case "all":
            sides = zip((passes.forward, passes.backward), taken_s, strict=True)
            forward_s, backward_s = (_in_pieces(total_s, side.matmul_s - each_s) for side, each_s in sides)
            return forward_s, backward_s
        case "gradients":
            # Of the backward products half give weight gradients, and half of these belong to split outputs.
            weight_s = np.maximum(0.0, passes.backward.matmul_s / 4.0 - taken_s[1])
            return total_s, gather_s + np.maximum(0.0, reduce_s - weight_s)
    return total_s, total_s


def _in_pieces(comm_s: Any, products_s: Any) -> Any:
    """What is left of `comm_s` beside products cut in CHUNKS pieces."""
    return np.maximum(comm_s / CHUNKS, comm_s - np.maximum(0.0, products_s))


def _tensor_traffic(shard: Shard, network: Network) -> tuple[Any, Any]:
    """(seconds of gathers, of reductions) of one pass: two all-reduces, or all-gather and reduce-scatter pairs."""
    levels, split = network.levels(("tp",)), shard.grid.sequence_parallel > 0
    size_B = shard.tokens * shard.model.hidden * shard.clock.element_B
    gather_s, scatter_s, whole_s = (
        collective(op, levels, size_B) for op in ("all-gather", "reduce-scatter", "all-reduce")
    )
    rounds = 1.0 if shard.model.parallel_block else 2.0
    return rounds * np.where(split, gather_s, 0.0), rounds * np.where(split, scatter_s, whole_s)


def _context(shard: Shard, network: Network, work: LayerWork) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Seconds of ring attention, forward and backward: all of them, and the exposed ones."""
    attention, cp = shard.model.attention, shard.grid.cp
    kv_dim = shard.kv_heads * (attention.head_dim + attention.value_dim)
    step_s = network.send("cp", shard.tokens * kv_dim * shard.clock.element_B)
    hidden_s = [side.device_s / cp for side in (work.core.forward, work.core.backward)]
    forward_s = (cp - 1) * np.maximum(0.0, step_s - hidden_s[0])
    backward_s = (cp - 1) * np.maximum(0.0, 2.0 * step_s - hidden_s[1])
    return ((cp - 1) * step_s, 2.0 * (cp - 1) * step_s), (forward_s, backward_s)


def _beside_shared(shard: Shard, exchange_s: Any, shared_s: Any) -> Any:
    """Seconds of the exchange that hide behind shared experts, whose kernels it slows."""
    if shard.recipe.overlap_ep != "shared":
        return 0.0
    return np.minimum(shared_s, (1.0 - shard.recipe.overlap_device_frac) * exchange_s)
