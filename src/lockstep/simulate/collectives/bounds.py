"""Lower bounds: what no algorithm of the one-port model can beat. All functions broadcast.

    latency     after t steps a value has reached at most (1 + ports)^t ranks:  ceil(log_{1+ports} n) alpha
    bandwidth   bytes that some rank must send or receive, over its ports:      bytes beta / ports
    reduction   (n - 1) S bytes must be reduced by n ranks:                     (n - 1)/n S gamma
The bound is the largest of the three (their sum is not a bound for every collective). Bytes per collective: `op`.
Where the switch between the ranks reduces, two messages reach everyone and the third bound is void.

Source: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69 (2009),
section 3; E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn, "Collective communication: theory, practice, and
experience", CCPE 19 (2007), table 1.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.simulate.collectives.cost import LinkLike, Terms
from lockstep.simulate.collectives.op import op_of
from lockstep.simulate.collectives.shares import Split, ceil_log2


def lower_bound_terms(
    op: str, ranks: Number, size_B: Number, ports: int = 1, element_B: float = 0.0, in_switch: bool = False
) -> Terms:
    """Latency steps, bytes in series and reduced bytes in series that every algorithm of `op` needs.

    With `in_switch` the switch may reduce and copy: two messages reach everyone, and no rank has to reduce.
    """
    needs = op_of(op)
    steps = ceil_log2(ranks) if ports == 1 else _ceil_log(ranks, 1 + ports)
    if np.isfinite(needs.most_steps):
        steps = np.minimum(needs.most_steps, np.asarray(ranks) - 1.0)
    if in_switch:
        return Terms(np.minimum(steps, 2.0), needs.switched_B(ranks, size_B, Split(element_B)) / ports)
    reduced_B = size_B * ((ranks - 1) / ranks) if needs.reduces else np.asarray(ranks) * 0.0
    return Terms(steps, needs.wire_B(ranks, size_B, Split(element_B)) / ports, reduced_B if ports == 1 else 0.0)


def lower_bound_s(
    op: str,
    ranks: Number,
    size_B: Number,
    link: LinkLike,
    ports: int = 1,
    element_B: float = 0.0,
    in_switch: bool = False,
) -> Number:
    """Seconds that no algorithm beats: the largest of the latency, bandwidth and reduction bounds."""
    terms = lower_bound_terms(op, ranks, size_B, ports, element_B, in_switch)
    bound: Number = np.maximum(terms.steps * link.latency_s, terms.critical_B / link.bandwidth_Bps)
    bound = np.maximum(bound, terms.reduced_B * getattr(link, "reduce_s_per_B", 0.0))
    return bound


def bus_factor(op: str, ranks: Number) -> Number:
    """busbw / algbw in nccl-tests (`op`)."""
    return op_of(op).bus_factor(ranks)


def bus_bandwidth_Bps(op: str, ranks: Number, size_B: Number, time_s: Number) -> Number:
    """Bus bandwidth, bytes/s: size_B / time_s * bus_factor; 0 where nothing was to be done (time 0)."""
    time_s = np.asarray(time_s, dtype=np.float64)
    busy = time_s > 0
    rate = np.where(busy, size_B / np.where(busy, time_s, 1.0), 0.0) * bus_factor(op, ranks)
    return float(rate) if np.ndim(rate) == 0 else rate


def _ceil_log(count: Number, base: int) -> Number:
    """Smallest k with base^k >= count, exact for whole counts."""
    guess: Number = np.ceil(np.log(count) / np.log(base))
    guess = np.where(np.power(float(base), guess - 1) >= count, guess - 1, guess)
    return np.where(np.power(float(base), guess) < count, guess + 1, guess)
