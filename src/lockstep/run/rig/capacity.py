"""What this machine's emulator carries, measured just before it is used: are the links asked for the slowest thing?

    floor_s          one way of a small packet over a link without delay, at least: what the machine itself takes
    bandwidth_Bps    of one stream over links without rate, in packets of the same size, both of its ends included

A program that puts r(t) bytes per second on all links together leaves the emulator behind where r exceeds that:

    behind(t) = max over s <= t of  integral from s to t of (r / bandwidth_Bps - 1)        in seconds

A prediction for the links is then no prediction for the run. `judged` says so, or refuses.
"""

from __future__ import annotations

import math
import os
import select
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import permutations

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.units import format_bandwidth, format_frac, format_time
from lockstep.run.launch import Host
from lockstep.run.rig.namespace import inside
from lockstep.run.rig.rig import Rig
from lockstep.run.rig.worker import PRIORITY
from lockstep.simulate.play import FifoLink, Topology, simulate_packets
from lockstep.simulate.program import Kind, Program

PACKETS = 60
STREAM_S = 0.2
BLOCK_B = 1 << 20
WAIT_S = 5.0
SAID_FRAC, REFUSED_FRAC = 0.1, 1.0
"""Of the delay, that the machine itself takes; assumed."""
BEHIND_SAID_FRAC, BEHIND_REFUSED_FRAC = 0.02, 0.5
"""Of a run, that the emulator falls behind; assumed."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a rig of this machine carries when its links do not limit it."""

    floor_s: float
    bandwidth_Bps: float

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def measure_capacity(hosts: int, mtu_B: int) -> Capacity:
    """Between two of `hosts` hosts joined by free links; takes half a second. Raises BadInput as `Rig` does."""
    found: list[Capacity] = []
    with Rig(_free(hosts), mtu_B=mtu_B) as rig:
        trial = threading.Thread(target=lambda: found.append(_measured(rig)))
        trial.start()
        trial.join()
    if not found:
        raise BadInput("the emulator did not carry a packet; its message is on stderr", "rig")
    return found[0]


def _free(hosts: int) -> Topology:
    """Links without rate and delay between all pairs."""
    numbers = {pair: number for number, pair in enumerate(permutations(range(hosts), 2))}
    paths = tuple(tuple((numbers[a, b],) if a != b else () for b in range(hosts)) for a in range(hosts))
    return Topology("free", tuple(FifoLink(f"{a} -> {b}", math.inf, 0.0) for a, b in numbers), paths)


def _measured(rig: Rig) -> Capacity:
    """Both numbers, from a thread as prompt as the ranks will be."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(PRIORITY))
    return Capacity(_floor_s(rig), _stream_Bps(rig))


def _floor_s(rig: Rig) -> float:
    """Least seconds of a datagram from one host to the other."""
    first, second = rig.hosts[:2]
    with _socket(first, socket.SOCK_DGRAM) as there, _socket(second, socket.SOCK_DGRAM) as back:
        times_s = []
        for _ in range(PACKETS):
            began = time.perf_counter()
            there.sendto(b"packet", back.getsockname())
            back.recv(16)
            times_s.append(time.perf_counter() - began)
    return min(times_s)


def _stream_Bps(rig: Rig) -> float:
    """Bytes per second of one TCP stream, written and read by this thread."""
    first, second = rig.hosts[:2]
    with _socket(second, socket.SOCK_STREAM) as server, _socket(first, socket.SOCK_STREAM) as source:
        server.listen()
        source.connect(server.getsockname())
        target, _ = server.accept()
        with target:
            source.setblocking(False)
            block, taken, taken_B = bytes(BLOCK_B), bytearray(BLOCK_B), 0
            began = time.perf_counter()
            while time.perf_counter() - began < STREAM_S:
                readable, writable, _ = select.select([target], [source], [], WAIT_S)
                if writable:
                    source.send(block)
                if readable:
                    taken_B += target.recv_into(taken)
            return taken_B / (time.perf_counter() - began)


def _socket(host: Host, kind: socket.SocketKind) -> socket.socket:
    """A socket at the host's address, with a limit on every wait."""
    with inside(str(host.namespace)):
        made = socket.socket(socket.AF_INET, kind)
    made.bind((host.address, 0))
    made.settimeout(WAIT_S)
    return made


def behind_s(program: Program, topology: Topology, bandwidth_Bps: float) -> tuple[float, float]:
    """How far an emulator of that bandwidth falls behind the program on these links at most, and the makespan."""
    line = simulate_packets(program, topology)
    sends = np.flatnonzero(program.kind == Kind.SEND)
    ways = zip(program.rank[sends].tolist(), program.peer[sends].tolist(), strict=True)
    known = [(topology.delay_s(a, b), topology.rate_Bps(a, b)) for a, b in ways]
    delay_s, rate_Bps = (np.array(column) for column in zip(*known, strict=True)) if known else (np.zeros(0),) * 2
    size_B, begin_s = program.size_B[sends], line.end_s[sends]
    end_s = np.maximum(line.end_s[program.match[sends]] - delay_s, begin_s + size_B / rate_Bps)
    flow_Bps = np.divide(size_B, end_s - begin_s, out=np.zeros(len(sends)), where=end_s > begin_s)
    times_s = np.concatenate((begin_s, end_s))
    order = np.argsort(times_s, kind="stable")
    busy = np.cumsum(np.concatenate((flow_Bps, -flow_Bps))[order])[:-1] / bandwidth_Bps
    behind = most = 0.0
    for added_s in ((busy - 1) * np.diff(times_s[order])).tolist():
        behind = max(0.0, behind + added_s)
        most = max(most, behind)
    return most, line.makespan_s


def judged(capacity: Capacity, topology: Topology, ranks: int, programs: Sequence[Program]) -> tuple[str, ...]:
    """What a reader must know about a run of these programs on this machine. Raises BadInput when it makes no sense."""
    said = []
    delay_s = max(topology.delay_s(0, host) for host in range(1, ranks))
    machine = f"this machine takes {format_time(capacity.floor_s)} from host to host by itself, measured just now"
    if capacity.floor_s >= REFUSED_FRAC * delay_s:
        raise BadInput(f"{format_time(delay_s)} cannot be had: {machine}; try 1 ms or more", "--delay")
    if capacity.floor_s > SAID_FRAC * delay_s:
        said.append(f"{machine}, {format_frac(capacity.floor_s / delay_s, 2)} of the delay asked for")
    late_s, whole_s = max(
        (behind_s(program, topology, capacity.bandwidth_Bps) for program in programs),
        key=lambda late: late[0] / late[1] if late[1] else 0.0,
    )
    most = f"the emulator carries {format_bandwidth(capacity.bandwidth_Bps)} in total, measured just now"
    behind = f"{most}: it falls {format_time(late_s)} behind in a run of {format_time(whole_s)}"
    if late_s > BEHIND_REFUSED_FRAC * whole_s:
        raise BadInput(f"{behind}; try a lower rate, fewer ranks or a larger --mtu", "--rate")
    if late_s > BEHIND_SAID_FRAC * whole_s:
        said.append(behind)
    return tuple(said)
