"""`simulate_contended`: messages that are under way together share the capacities of a network, max-min fairly.

Event-driven fluid simulation. A message waits until both ends are ready, takes the latency of its route, then moves its
bytes at the max-min fair rate among all messages moving at that moment; rates change whenever one starts or ends.
Everything else takes the time it takes without contention. Without shared capacities the result equals `simulate`.

Source of the model: P. Velho, L. Schnorr, H. Casanova, A. Legrand, On the validity of flow-level TCP network models for
grid and cloud simulations, ACM TOMACS 23(4), 2013 (here without TCP's round-trip weights).
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.errors import BadInput
from lockstep.program import Kind, Program, Timeline
from lockstep.simulate.fairness import max_min_rates
from lockstep.simulate.network import Network
from lockstep.simulate.prices import Price, durations_s

Array = npt.NDArray[Any]


def simulate_contended(program: Program, network: Network, *, price: Price | None = None) -> Timeline:
    """When every operation starts and ends on a network whose links are shared, in seconds."""
    if program.ranks > network.ranks:
        raise BadInput(f"the program has {program.ranks} ranks, the network only {network.ranks}")
    run = _Fluid(program, network, price)
    run.advance()
    node = program.graph.node
    return Timeline(
        program, run.start_s[node], run.end_s[node],
        assumptions=("messages under way together share links max-min fairly (fluid model)",),
    )  # fmt: skip


class _Unlimited:
    """Gives messages no time of their own, so that `durations_s` prices only the rest."""

    latency_s = 0.0
    bandwidth_Bps = np.inf

    def __init__(self, reduce_s_per_B: float) -> None:
        self.reduce_s_per_B = reduce_s_per_B


class _Fluid:
    """State of the fluid simulation: timed events in a heap, moving messages with remaining bytes."""

    def __init__(self, program: Program, network: Network, price: Price | None) -> None:
        graph = program.graph
        self.network = network
        self.start_s, self.end_s = np.zeros(graph.num_nodes), np.zeros(graph.num_nodes)
        self.duration_s = np.zeros(graph.num_nodes)
        self.duration_s[graph.node] = durations_s(program, _Unlimited(network.reduce_s_per_B), price)
        self.message = self._messages(program)
        self.after: list[list[int]] = [[] for _ in range(graph.num_nodes)]
        self.waiting = [0] * graph.num_nodes
        for column in graph.before:
            for v, u in enumerate(column.tolist()):
                if v:
                    self.after[u].append(v)
                    self.waiting[v] += 1
        self.timed: list[tuple[float, int, bool]] = []
        self.moving: list[int] = []
        self.remaining_B = np.zeros(0)
        self.rate_Bps = np.zeros(0)

    def _messages(self, program: Program) -> dict[int, tuple[float, float, list[int]]]:
        """Node of each message that moves bytes -> (latency s, bytes, resources)."""
        result = {}
        sends = np.flatnonzero((program.kind == Kind.SEND) & np.isnan(program.duration_s))
        for i in sends.tolist():
            source, target = int(program.rank[i]), int(program.peer[i])
            route = list(self.network.route(source, target))
            entry = (self.network.latency_s(source, target), float(program.size_B[i]), route)
            result[int(program.graph.node[i])] = entry
        return result

    def advance(self) -> None:
        """Runs until nothing is left."""
        now = 0.0
        self._finish([0], now)
        while self.timed or self.moving:
            left_s = self.remaining_B / self.rate_Bps
            flow_end = now + float(left_s.min(initial=np.inf))
            then = min(self.timed[0][0] if self.timed else np.inf, flow_end)
            # Messages that end within rounding of the next event end with it: one event, not a burst of tiny ones.
            done = left_s <= (then - now) + 1e-12 * then
            self.remaining_B = np.maximum(self.remaining_B - self.rate_Bps * (then - now), 0.0)
            now = then
            changed = bool(done.any())
            finished = [v for v, over in zip(self.moving, done.tolist(), strict=True) if over]
            self.moving = [v for v, over in zip(self.moving, done.tolist(), strict=True) if not over]
            self.remaining_B = self.remaining_B[~done]
            while self.timed and self.timed[0][0] <= now:
                _, v, starts_moving = heapq.heappop(self.timed)
                if starts_moving:
                    self.moving.append(v)
                    self.remaining_B = np.append(self.remaining_B, self.message[v][1])
                    changed = True
                else:
                    finished.append(v)
            self._finish(finished, now)
            if changed:
                self._share()

    def _finish(self, nodes: list[int], now: float) -> None:
        """Ends nodes and starts those that waited only for them; nodes without time end at once."""
        queue = list(nodes)
        for v in queue:
            self.end_s[v] = now
            for w in self.after[v]:
                self.waiting[w] -= 1
                if not self.waiting[w]:
                    self.start_s[w] = now
                    latency_s, size_B, route = self.message.get(w, (self.duration_s[w], 0.0, []))
                    if size_B and route:
                        heapq.heappush(self.timed, (now + latency_s, w, True))
                    elif latency_s:
                        heapq.heappush(self.timed, (now + latency_s, w, False))
                    else:
                        queue.append(w)

    def _share(self) -> None:
        """Rates of the messages now moving."""
        routes = [self.message[v][2] for v in self.moving]
        flow = np.repeat(np.arange(len(routes)), [len(route) for route in routes])
        resource = np.array([r for route in routes for r in route], dtype=np.int64)
        self.rate_Bps = max_min_rates(self.network.capacity_Bps, flow, resource, len(routes))
