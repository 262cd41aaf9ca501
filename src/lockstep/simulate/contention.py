"""`simulate_contended`: messages that are under way together share the capacities of a network, max-min fairly.

A message waits until both ends are ready, takes the latency of its route, then moves its bytes at the max-min fair rate
among all messages moving at that moment (`fluid`). Everything else takes the time it takes without contention. Without
shared capacities the result equals `simulate`.

Source of the model: P. Velho, L. Schnorr, H. Casanova, A. Legrand, On the validity of flow-level TCP network models for
grid and cloud simulations, ACM TOMACS 23(4), 2013 (here without TCP's round-trip weights).
"""

from __future__ import annotations

import numpy as np

from lockstep.errors import BadInput
from lockstep.program import Kind, Program, Timeline
from lockstep.simulate.fluid import Flow, Fluid, Unlimited
from lockstep.simulate.network import Network
from lockstep.simulate.prices import Price, durations_s


def simulate_contended(program: Program, network: Network, *, price: Price | None = None) -> Timeline:
    """When every operation starts and ends on a network whose links are shared, in seconds."""
    if program.ranks > network.ranks:
        raise BadInput(f"the program has {program.ranks} ranks, the network only {network.ranks}")
    node = program.graph.node
    duration_s = np.zeros(program.graph.num_nodes)
    duration_s[node] = durations_s(program, Unlimited(network.reduce_s_per_B), price)
    run = Fluid(program, duration_s, _messages(program, network), network.capacity_Bps)
    run.advance()
    return Timeline(
        program, run.start_s[node], run.end_s[node],
        assumptions=("messages under way together share links max-min fairly (fluid model)",),
    )  # fmt: skip


def _messages(program: Program, network: Network) -> dict[int, Flow]:
    """Node of each message that moves bytes -> its flow, in bytes."""
    found = {}
    for i in np.flatnonzero((program.kind == Kind.SEND) & np.isnan(program.duration_s)).tolist():
        source, target = int(program.rank[i]), int(program.peer[i])
        route = tuple(network.route(source, target))
        found[int(program.graph.node[i])] = Flow(network.latency_s(source, target), float(program.size_B[i]), route)
    return found
