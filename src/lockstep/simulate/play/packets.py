"""`simulate_packets`: a program whose messages are packets in FIFO queues, sent by rendezvous or eagerly.

    rendezvous   the receive, once posted, sends the sender a notice; data leave at max(send posted, notice there). Two
                 ranks that post at the same moment pay 2 alpha + n beta, a receive posted alpha earlier only
                 alpha + n beta. (gloo; MPI for large messages)
    eager        data leave when the send is posted, and wait at the receiver. (MPI for small messages)

A send ends when the socket has taken its bytes (at once, when they leave), a receive when the last byte is there. All
packets of a message enter their path back to back, each link is FIFO and store-and-forward, so the order of sends
matters: ranks that all begin with the same receiver wait for one another (incast). A rank that is ready for a send and
a receive at once posts the receive first, as libraries do, so that its notice does not queue behind its own data.
A rank posts one send or receive after another, `posting_s` each (the overhead o of LogP): it shows where many are
posted at once.
Windows that grow, acknowledgements, loss, jitter and full queues are not in the model. Lanes and dependencies are those
of the program; compute, reduce and barrier as in `simulate`.

Source of the protocol: gloo `transport/tcp/pair.cc` (notifySendReady, notifyRecvReady); W. Gropp, E. Lusk, A. Skjellum,
Using MPI, 3rd ed. 2014, section 4.4 on eager and rendezvous; D. Culler et al., "LogP", PPoPP 1993.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable

import numpy as np

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.simulate.play.prices import durations_s
from lockstep.simulate.play.topology import FifoLink, FifoLinks, Topology
from lockstep.simulate.program import Kind, Program, Timeline

MODES = ("rendezvous", "eager")
# A longer message goes in larger packets; the last one then adds at most 1/512 of the message per extra link.
MOST_PACKETS = 512


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a message becomes packets, and what the hosts add to it."""

    mode: str = "rendezvous"
    payload_B: float = 8948.0
    """Of a full packet; 8948 is an MTU of 9000 less the IP and TCP headers."""
    header_B: float = 52.0
    """Of every packet: IP 20, TCP 20, timestamps 12 (RFC 791, 9293, 7323)."""
    notice_B: float = 100.0
    """A notice or the preamble of a message, without packet header."""
    notice_overhead_s: float = 0.0
    """Of both hosts, from posting a receive to the sender's knowing, beside the path."""
    message_overhead_s: float = 0.0
    """Of both hosts, from data that leave to a receive that is over, beside the path."""
    posting_s: float = 0.0
    """Of a rank, to post a send or a receive; one after another."""
    reduce_s_per_B: float = 0.0

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UnknownName("protocol mode", self.mode, MODES)
        if not self.payload_B > 0:
            raise BadInput(f"payload_B must be above 0, got {self.payload_B:g}")
        for name in ("header_B", "notice_B", "notice_overhead_s", "message_overhead_s", "posting_s", "reduce_s_per_B"):
            if not 0 <= getattr(self, name) < math.inf:
                raise BadInput(f"{name} must be finite and at least 0, got {getattr(self, name):g}")

    def packets_B(self, size_B: float) -> list[float]:
        """Bytes on the wire of each packet of a message."""
        whole_B = size_B + self.notice_B
        packets = max(1, math.ceil(whole_B / self.payload_B))
        wire_B = whole_B + packets * self.header_B
        shown = min(packets, MOST_PACKETS)
        full_B = (self.payload_B + self.header_B) * packets / shown
        sizes = [full_B] * (shown - 1)
        return [*sizes, wire_B - sum(sizes)]


def simulate_packets(program: Program, topology: Topology, protocol: Protocol | None = None) -> Timeline:
    """When every operation starts and ends, in seconds; rank r is host r.

    Raises: BadInput when there are too few hosts, for collectives that are one operation, and for messages with a given
    time.
    """
    run = _Run(program, topology, protocol or Protocol())
    run.advance()
    kind = (
        "messages wait for the receiver's notice" if run.protocol.mode == "rendezvous" else "messages are sent eagerly"
    )
    return Timeline(
        program, np.array(run.start_s), np.array(run.end_s),
        assumptions=(f"{kind}; packets queue first in, first out on every link, store and forward",
                     "no slow start, no loss, no acknowledgements"),
    )  # fmt: skip


class _Free:
    """Prices everything but messages."""

    latency_s = 0.0
    bandwidth_Bps = math.inf

    def __init__(self, reduce_s_per_B: float) -> None:
        self.reduce_s_per_B = reduce_s_per_B


class _Run:
    """State of the simulation: packets in the links, and what the hosts do next in a heap."""

    def __init__(self, program: Program, topology: Topology, protocol: Protocol) -> None:
        _check(program, topology)
        self.topology, self.protocol = topology, protocol
        # What is random in a link belongs to the emulator; a lost packet would never be sent again here.
        self.links = FifoLinks([FifoLink(link.name, link.rate_Bps, link.delay_s) for link in topology.links])
        self.kind, self.rank = program.kind.tolist(), program.rank.tolist()
        self.match, self.size_B = program.match.tolist(), program.size_B.tolist()
        self.duration_s = durations_s(program, _Free(protocol.reduce_s_per_B)).tolist()
        self.start_s, self.end_s = [math.nan] * len(program), [math.nan] * len(program)
        self.after, self.waiting = _successors(program)
        self.barrier = _barriers(program)
        self.free_s = [0.0] * program.ranks
        self.posted: set[int] = set()
        self.announced: set[int] = set()
        """Sends whose receiver is ready (rendezvous) and receives whose data are there (eager)."""
        self.events: list[tuple[float, int, Callable[[int, float], None], int]] = []
        self.sequence = 0

    def advance(self) -> None:
        """Runs until nothing is left."""
        for i in [i for i, count in enumerate(self.waiting) if not count]:
            self._start(i, 0.0)
        while self.events or self.links.next_at < math.inf:
            now = min(self.events[0][0] if self.events else math.inf, self.links.next_at)
            for at, (arrives, overhead_s, i) in self.links.advance(now):
                if arrives is not None:
                    self._at(at + overhead_s, arrives, i)
            while self.events and self.events[0][0] <= now:
                _, _, happens, i = heapq.heappop(self.events)
                happens(i, now)

    def _at(self, time_s: float, happens: Callable[[int, float], None], i: int) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (time_s, self.sequence, happens, i))

    def _start(self, i: int, now: float) -> None:
        """Operation `i` is ready: it is posted, runs, or waits for the others of its barrier."""
        self.start_s[i] = now
        if self.kind[i] in (Kind.SEND, Kind.RECV):
            self._turn_to(i, now)
        elif self.kind[i] == Kind.BARRIER:
            self._meet(i, now)
        else:
            self._at(now + self.duration_s[i], self._finish, i)

    def _turn_to(self, i: int, now: float) -> None:
        """The rank posts `i` when it has posted what was ready before."""
        if not self.protocol.posting_s:
            self._post(i, now)
            return
        rank = self.rank[i]
        self.free_s[rank] = max(now, self.free_s[rank]) + self.protocol.posting_s
        self._at(self.free_s[rank], self._post, i)

    def _post(self, i: int, now: float) -> None:
        """A send or a receive has been posted."""
        self.posted.add(i)
        if self.kind[i] == Kind.SEND:
            if self.protocol.mode == "eager" or i in self.announced:
                self._leave(i, now)
        elif self.protocol.mode == "rendezvous":
            self._notify(self.match[i], now)
        elif i in self.announced:
            self._finish(i, now)

    def _notify(self, send: int, now: float) -> None:
        """The receiver of `send` says that it is ready."""
        back = self.topology.paths[self.rank[self.match[send]]][self.rank[send]]
        size_B = self.protocol.notice_B + self.protocol.header_B
        self.links.enter((self._clear, self.protocol.notice_overhead_s, send), size_B, back, now)

    def _clear(self, send: int, now: float) -> None:
        """The notice has reached the sender."""
        self.announced.add(send)
        if send in self.posted:
            self._leave(send, now)

    def _leave(self, send: int, now: float) -> None:
        """The socket takes the message, packet by packet."""
        recv = self.match[send]
        path = self.topology.paths[self.rank[send]][self.rank[recv]]
        *others, last = self.protocol.packets_B(self.size_B[send])
        for size_B in others:
            self.links.enter((None, 0.0, recv), size_B, path, now)
        self.links.enter((self._arrive, self.protocol.message_overhead_s, recv), last, path, now)
        self._finish(send, now)

    def _arrive(self, recv: int, now: float) -> None:
        """The last byte is there."""
        self.announced.add(recv)
        if recv in self.posted:
            self._finish(recv, now)

    def _meet(self, i: int, now: float) -> None:
        """A member has come to a barrier; the last one opens it for all."""
        members = self.barrier[i]
        if not any(math.isnan(self.start_s[j]) for j in members):
            for j in members:
                self.start_s[j] = now
                self._at(now, self._finish, j)

    def _finish(self, i: int, now: float) -> None:
        """Operation `i` is over; whatever waited only for it starts."""
        self.end_s[i] = now
        for j in self.after[i]:
            self.waiting[j] -= 1
            if not self.waiting[j]:
                self._start(j, now)


def _check(program: Program, topology: Topology) -> None:
    if program.ranks > topology.hosts:
        raise BadInput(f"the program has {program.ranks} ranks, the topology only {topology.hosts} hosts")
    kind, given = program.kind, ~np.isnan(program.duration_s)
    if (kind == Kind.COLLECTIVE).any():
        raise BadInput("a collective as one operation sends no packets; expand the program first (program.expand)")
    if (given & ((kind == Kind.SEND) | (kind == Kind.RECV))).any():
        raise BadInput("a message with a fixed duration_s cannot be sent as packets; remove its duration_s")


def _successors(program: Program) -> tuple[list[list[int]], list[int]]:
    """Who waits for each operation, and for how many each one waits: its lane and its `after`, messages unfused.

    Sends come last, so that a rank that is ready for both posts its receive before its data fill the link.
    """
    by_lane = np.argsort(program.lane, kind="stable")
    same = program.lane[by_lane[1:]] == program.lane[by_lane[:-1]]
    heads = np.repeat(np.arange(len(program)), np.diff(program.after_start))
    first = np.concatenate((by_lane[:-1][same], program.after)).tolist()
    then = np.concatenate((by_lane[1:][same], heads)).tolist()
    after: list[list[int]] = [[] for _ in range(len(program))]
    waiting = [0] * len(program)
    sends = (program.kind == Kind.SEND).tolist()
    for i, j in sorted(set(zip(first, then, strict=True)), key=lambda edge: (edge[0], sends[edge[1]], edge[1])):
        after[i].append(j)
        waiting[j] += 1
    return after, waiting


def _barriers(program: Program) -> dict[int, list[int]]:
    """For every member of a barrier, all its members."""
    start, members = program.groups
    groups = (members[low:high].tolist() for low, high in itertools.pairwise(start.tolist()))
    return {i: ids for ids in groups for i in ids}
