"""`Fluid`: operations that share capacities while they are under way, max-min fairly; the others take their time.

Event-driven: an operation that flows waits for its delay, then works off its amount at the max-min fair rate among all
that flow at that moment; rates change whenever one starts or ends. `max_min_rates`, by progressive filling:

    Raise all rates together; when a resource is full, its flows are settled at the rate reached; go on with the others.

The result is the only allocation in which every flow crosses a full resource on which no other flow is faster.
Source: D. Bertsekas and R. Gallager, Data Networks, 2nd ed. 1992, section 6.5.2.

`simulate_contended`: messages that are under way together share the capacities of a network, max-min fairly.

A message waits until both ends are ready, takes the latency of its route, then moves its bytes at the max-min fair rate
among all messages moving at that moment. Everything else takes the time it takes without contention. Without
shared capacities the result equals `simulate`.

Source of the model: P. Velho, L. Schnorr, H. Casanova, A. Legrand, On the validity of flow-level TCP network models for
grid and cloud simulations, ACM TOMACS 23(4), 2013 (here without TCP's round-trip weights).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.simulate.play.network import Network
from lockstep.simulate.play.prices import PairLinks, Price, durations_s
from lockstep.simulate.program import Kind, Program, Timeline


def max_min_rates(capacity_Bps: Array, flow: Array, resource: Array, num_flows: int) -> Array:
    """Rate of each flow in B/s; flow[i] uses resource[i] (one entry per pair). A flow without resources is
    unlimited.
    """
    rate = np.full(num_flows, np.inf)
    left = np.array(capacity_Bps, dtype=np.float64)
    active = np.ones(len(flow), dtype=bool)
    while active.any():
        users = np.bincount(resource[active], minlength=len(left))
        share = np.divide(left, users, out=np.full(len(left), np.inf), where=users > 0)
        lowest = share.min()
        # Equal shares up to rounding are settled together, so that symmetric flows get the same rate exactly.
        full = share <= lowest * (1 + 1e-12)
        settled = np.unique(flow[active & full[resource]])
        rate[settled] = lowest
        done = np.isin(flow, settled) & active
        left -= lowest * np.bincount(resource[done], minlength=len(left))
        np.maximum(left, 0.0, out=left)
        active &= ~done
    return rate


@dataclass(frozen=True, slots=True)
class Flow:
    """An operation that shares: seconds before it flows, what it works off, and the resources that it takes."""

    delay_s: float
    amount: float
    resources: tuple[int, ...]


AT_ONCE = Flow(0.0, 0.0, ())


class Unlimited:
    """Links that give messages no time of their own, so that `durations_s` prices only the rest.

    `reduce_s_per_B`: seconds per reduced byte, or (senders, receivers) -> those of what came that way.
    """

    def __init__(self, reduce_s_per_B: float | Callable[[Array, Array], Array] = 0.0) -> None:
        self.reduce_s_per_B = reduce_s_per_B

    def link_between(self, first: Array, second: Array) -> PairLinks:
        """What each pair of ranks pays."""
        nothing = np.zeros(np.shape(first))
        known = self.reduce_s_per_B
        return PairLinks(nothing, nothing + np.inf, known(first, second) if callable(known) else nothing + known)


class Fluid:
    """The state of a simulation: timed events in a heap, flows with what remains of them.

    `duration_s` of every node of the program's graph, for those without a flow; `flows` by node; `capacity` of each
    resource, in amounts per second.
    """

    def __init__(self, program: Program, duration_s: Array, flows: Mapping[int, Flow], capacity: Array) -> None:
        graph = program.graph
        self.duration_s, self.flows, self.capacity = duration_s, flows, capacity
        self.start_s, self.end_s = np.zeros(graph.num_nodes), np.zeros(graph.num_nodes)
        self.after: list[list[int]] = [[] for _ in range(graph.num_nodes)]
        self.waiting = [0] * graph.num_nodes
        for column in graph.before:
            for v, u in enumerate(column.tolist()):
                if v:
                    self.after[u].append(v)
                    self.waiting[v] += 1
        self.timed: list[tuple[float, int, bool]] = []
        self.flowing: list[int] = []
        self.remaining = np.zeros(0)
        self.rate = np.zeros(0)

    def advance(self) -> None:
        """Runs until nothing is left."""
        now = 0.0
        self._finish([0], now)
        while self.timed or self.flowing:
            left_s = self.remaining / self.rate
            flow_end = now + float(left_s.min(initial=np.inf))
            then = min(self.timed[0][0] if self.timed else np.inf, flow_end)
            # Flows that end within rounding of the next event end with it: one event, not a burst of tiny ones.
            done = left_s <= (then - now) + 1e-12 * then
            self.remaining = np.maximum(self.remaining - self.rate * (then - now), 0.0)
            now = then
            changed = bool(done.any())
            finished = [v for v, over in zip(self.flowing, done.tolist(), strict=True) if over]
            self.flowing = [v for v, over in zip(self.flowing, done.tolist(), strict=True) if not over]
            self.remaining = self.remaining[~done]
            while self.timed and self.timed[0][0] <= now:
                _, v, starts_flowing = heapq.heappop(self.timed)
                if starts_flowing:
                    self.flowing.append(v)
                    self.remaining = np.append(self.remaining, self.flows[v].amount)
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
                    flow = self.flows.get(w, AT_ONCE)
                    delay_s = flow.delay_s if w in self.flows else self.duration_s[w]
                    if flow.amount and flow.resources:
                        heapq.heappush(self.timed, (now + delay_s, w, True))
                    elif delay_s:
                        heapq.heappush(self.timed, (now + delay_s, w, False))
                    else:
                        queue.append(w)

    def _share(self) -> None:
        """Rates of all that flow now."""
        taken = [self.flows[v].resources for v in self.flowing]
        flow = np.repeat(np.arange(len(taken)), [len(resources) for resources in taken])
        used, resource = np.unique([r for resources in taken for r in resources], return_inverse=True)
        self.rate = max_min_rates(self.capacity[used.astype(np.int64)], flow, resource, len(taken))


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
