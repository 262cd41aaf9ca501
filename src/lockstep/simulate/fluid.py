"""`Fluid`: operations that share capacities while they are under way, max-min fairly; the others take their time.

Event-driven: an operation that flows waits for its delay, then works off its amount at the max-min fair rate among all
that flow at that moment; rates change whenever one starts or ends.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.program import Program
from lockstep.simulate.fairness import max_min_rates
from lockstep.simulate.links import PairLinks

Array = npt.NDArray[Any]


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
