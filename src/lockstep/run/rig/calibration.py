"""What the hosts add to the links, fitted on sends and receives alone, before any collective runs.

Three patterns between partners that share no link, ROUNDS messages of each size:

    exchange    both post a send and a receive at the same moment      2 delay + o + h1 + h2 + n beta a round
    ping-pong   forth and back, all receives posted at the begin         delay + o + h2 + n beta a message, after
                                                                         the first, which waits for its notice
    burst       both post all messages at once, small ones               2 delay + h1 + h2 and a posting each

Fitted are h1 = `notice_overhead_s` and h2 = `message_overhead_s` (processes that wake up, sockets), o = `posting_s` (of
a rank, to post one send or receive before the next), and how much slower than asked for the links are: weighted least
squares on relative errors, so that small and large messages count alike, no overhead below zero; a trial that a busy
machine disturbed loses weight (P. Huber, Ann. Math. Statist. 35, 1964). The model is the simulation itself. In two
numbers: alpha = delay + (h1 + h2 + o) / 2 and beta = wire bytes per byte / fitted rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json, picked
from lockstep.run.rig.entrants import ELEMENT_B
from lockstep.simulate.collectives.rounds import Rounds
from lockstep.simulate.play import Protocol, Topology, simulate_packets
from lockstep.simulate.program import Program, ProgramBuilder

ROUNDS = 4
SIZES_B = (4096, 32768, 131072, 262144)
BURSTS_B = (512, 1024, 2048)
"""Small, so that what a message costs its rank is not hidden behind the link."""
STEPS = np.array([1e-4, 1e-4, 1e-4, 1e-2])
"""Overheads of notice and message, and posting, in s, relative slowness: each small against what it is added to."""
APPROACHES = 6
"""Fits, each with slopes and residuals of the one before: posting hides behind links, and outliers lose weight."""
HUBER, SMALL_FRAC = 2.0, 1e-3
"""Residuals beyond so many medians count less and less; a median below the second is taken for it."""
LONGEST_TRIAL_S = 0.2
"""Of a message; slower links are calibrated on smaller messages, two sizes at least."""
LEAST_SLOWER_FRAC = -0.5


@dataclass(frozen=True, slots=True)
class Trial:
    """One pattern at one size."""

    pattern: str
    size_B: int
    program: Program


@dataclass(frozen=True, slots=True)
class Calibration:
    """Fitted protocol and links, and how well they describe the sends and receives they were fitted on."""

    protocol: Protocol
    topology: Topology
    """With rates as fitted."""
    latency_s: float
    """alpha between the first pair of partners."""
    bandwidth_Bps: float
    """1 / beta of the same pair: payload bytes per second."""
    rate_frac: float
    """Fitted rate over asked rate."""
    worst_frac: float
    """Largest relative error among the trials."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            **picked(self, "latency_s bandwidth_Bps"),
            **picked(self.protocol, "notice_overhead_s message_overhead_s posting_s"),
            **picked(self, "rate_frac worst_frac"),
        }


def partners(topology: Topology, ranks: int) -> list[tuple[int, int]]:
    """Disjoint pairs that share no link with one another; the first pair has the longest way."""
    ways = sorted(
        combinations(range(ranks), 2), key=lambda pair: (-topology.delay_s(*pair), pair[1] - pair[0] < ranks // 2)
    )
    found: list[tuple[int, int]] = []
    taken: set[int] = set()
    for first, second in ways:
        links = {*topology.paths[first][second], *topology.paths[second][first]}
        if not links & taken and not {first, second} & {rank for pair in found for rank in pair}:
            found.append((first, second))
            taken |= links
    return found


def trials(topology: Topology, ranks: int) -> list[Trial]:
    """All patterns at the sizes that the links carry soon, between the partners with the longest way."""
    pairs = partners(topology, ranks)
    longest_s = topology.delay_s(*pairs[0])
    alike = np.array([pair for pair in pairs if topology.delay_s(*pair) == longest_s])
    makers = (("exchange", _exchange), ("ping-pong", _ping_pong))
    rate_Bps = topology.rate_Bps(*pairs[0])
    sizes_B = [size_B for number, size_B in enumerate(SIZES_B) if number < 2 or size_B / rate_Bps < LONGEST_TRIAL_S]
    found = [Trial(name, size_B, make(alike, ranks, size_B)) for size_B in sizes_B for name, make in makers]
    return [*found, *(Trial("burst", size_B, _burst(alike, ranks, size_B)) for size_B in BURSTS_B)]


def _exchange(pairs: Array, ranks: int, size_B: int) -> Program:
    rounds = Rounds(ranks, ELEMENT_B)
    for _ in range(ROUNDS):
        rounds.messages(pairs, pairs[:, ::-1], 0, size_B // ELEMENT_B, to_buffer="inbox")
    return rounds.build()


def _ping_pong(pairs: Array, ranks: int, size_B: int) -> Program:
    """Every receive on a stream of its own, so that none waits for another."""
    builder = ProgramBuilder(ranks, ["send", *(f"recv {turn}" for turn in range(ROUNDS))])
    elems = (0, size_B // ELEMENT_B)
    for pair in pairs.tolist():
        last: tuple[int, ...] = ()
        for turn in range(ROUNDS):
            sender, receiver = pair[turn % 2], pair[1 - turn % 2]
            builder.send(sender, receiver, size_B, chunk=elems, after=last)
            last = (builder.recv(receiver, sender, size_B, chunk=elems, buffer="inbox", stream=f"recv {turn}"),)
    return builder.build()


def _burst(pairs: Array, ranks: int, size_B: int) -> Program:
    """Both partners send all messages at once."""
    builder = ProgramBuilder(ranks, ["send", *(f"recv {turn}" for turn in range(ROUNDS))])
    elems = (0, size_B // ELEMENT_B)
    for pair in pairs.tolist():
        for sender, receiver in (pair, pair[::-1]):
            for turn in range(ROUNDS):
                builder.send(sender, receiver, size_B, chunk=elems)
                builder.recv(receiver, sender, size_B, chunk=elems, buffer="inbox", stream=f"recv {turn}")
    return builder.build()


def calibrate(
    known: Sequence[Trial], measured_s: Sequence[float], topology: Topology, protocol: Protocol
) -> Calibration:
    """Overheads and rate that describe the measured makespans best; `protocol` without overheads.

    The simulation is linear in all four as long as the order of events stays, so slopes are finite differences.
    """
    measured = np.asarray(measured_s)

    def simulated(values: Array) -> Array:
        with_overheads, links = _applied(values, protocol, topology)
        return np.array([simulate_packets(trial.program, links, with_overheads).makespan_s for trial in known])

    found, weights = np.zeros(len(STEPS)), np.ones(len(measured))
    for _ in range(APPROACHES):
        now = simulated(found)
        slopes = np.stack([simulated(found + step) - now for step in np.diag(STEPS)], axis=1) / measured[:, np.newaxis]
        wanted = 1 - now / measured + slopes @ (found / STEPS)
        found = STEPS * _least_squares(slopes * weights[:, np.newaxis], wanted * weights)
        weights = _huber(1 - simulated(found) / measured)
    worst_frac = float(np.abs(simulated(found) / measured - 1).max())
    fitted, links = _applied(found, protocol, topology)
    first, second = partners(topology, known[0].program.ranks)[0]
    overhead_s = (fitted.notice_overhead_s + fitted.message_overhead_s + fitted.posting_s) / 2
    return Calibration(
        protocol=fitted,
        topology=links,
        latency_s=topology.delay_s(first, second) + overhead_s,
        bandwidth_Bps=links.rate_Bps(first, second) / (1 + protocol.header_B / protocol.payload_B),
        rate_frac=links.rate_Bps(first, second) / topology.rate_Bps(first, second),
        worst_frac=worst_frac,
    )


def _applied(values: Array, protocol: Protocol, topology: Topology) -> tuple[Protocol, Topology]:
    """The protocol with overheads, and the links slowed."""
    notice_s, message_s, posting_s, slower_frac = values.tolist()
    overheads = {"notice_overhead_s": notice_s, "message_overhead_s": message_s, "posting_s": posting_s}
    return replace(protocol, **overheads), slowed(topology, 1 / (1 + slower_frac))


def _least_squares(design: Array, wanted: Array) -> Array:
    """Solution in which no overhead is below zero: the most negative is left out, one after another."""
    kept = list(range(design.shape[1]))
    while True:
        solution = np.zeros(design.shape[1])
        solution[kept] = np.linalg.lstsq(design[:, kept], wanted, rcond=None)[0]
        solution[-1] = max(LEAST_SLOWER_FRAC / STEPS[-1], solution[-1])
        lowest = int(np.argmin(solution[:-1]))
        if solution[lowest] >= 0:
            return solution
        kept.remove(lowest)


def _huber(residuals: Array) -> Array:
    """Square roots of the weights of trials in the next fit."""
    size = np.abs(residuals)
    limit = HUBER * max(SMALL_FRAC, float(np.median(size)))
    return np.sqrt(limit / np.maximum(size, limit))


def slowed(topology: Topology, rate_frac: float) -> Topology:
    """The same links at a share of their rates."""
    links = (replace(link, rate_Bps=link.rate_Bps * rate_frac) for link in topology.links)
    return replace(topology, links=tuple(links))
