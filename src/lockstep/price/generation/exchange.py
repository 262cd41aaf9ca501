"""What ranks of an engine exchange in one pass: sums over the ranks of tensor parallelism, rows of experts, stages.

    a layer, tp ranks                  an all-reduce of m h a bytes after attention and after the feed-forward block
                                       by reading one another's memory (`peer_sum.py`) where that is faster
    experts among ep ranks, dp = 1     every rank has every token: the same all-reduce adds what experts gave
    experts, dp > 1                    m k h rows go to the ranks of their experts and come back, 1 / (ep) of them here
    stages                             a message of m h a bytes each

Symbols: m tokens of the rank, h hidden width, a bytes of an activation, k experts of a token. All other collectives are
priced as everywhere (`simulate/collectives`), on the cluster's links.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.describe.workload.kind import LayerKind
from lockstep.price.generation.engine import WIDE_B, Engine
from lockstep.simulate.parallel.group import collective_s, send_s
from lockstep.simulate.parallel.peer_sum import peer_sum_s


def layer_exchange_s(engine: Engine, kind: LayerKind, tokens: Number) -> Number:
    """Seconds of the collectives of a layer for `tokens` of one group of sequences; broadcasts."""
    size_B = tokens * engine.model.hidden * WIDE_B
    reduced_s: Number = 0.0
    if engine.tp > 1:
        group = engine.cluster.levels_of(engine.tp)
        launch_s = engine.cluster.device.efficiency.launch_s
        sums = (kind.mixer != "none") + (kind.block == "dense" or (kind.experts and engine.dp == 1))
        reduced_s = sums * np.minimum(collective_s("all-reduce", group, size_B), peer_sum_s(group, size_B, launch_s))
    return reduced_s + _routed_s(engine, kind, size_B)


def _routed_s(engine: Engine, kind: LayerKind, size_B: Number) -> Number:
    """Rows to experts and back where groups of sequences have different tokens."""
    experts = engine.model.experts
    if not kind.experts or experts is None or engine.dp == 1:
        return 0.0
    group = engine.cluster.levels_of(engine.stage_ranks)
    if engine.ep == 1:
        gathered = size_B * engine.stage_ranks
        return collective_s("all-gather", group, gathered) + collective_s("reduce-scatter", group, gathered)
    return 2.0 * collective_s("all-to-all", group, size_B * experts.top_k / engine.tp)


def stages_s(engine: Engine, tokens: Number) -> Number:
    """Seconds of one message from stage to stage."""
    if engine.pp == 1:
        return 0.0
    return send_s(engine.cluster.levels_of(engine.devices), tokens * engine.model.hidden * WIDE_B)
