"""The emulator: a process that owns the hosts' TUN devices and takes every packet through the links of its path.

    python -m lockstep.run.rig.emulator        one JSON object per line on stdin, one answer per line on stdout

The first line is the topology; the answer lists the hosts. Then `count` answers with the links' counters since the last
`reset`. End of file on stdin, which also comes when the parent dies, ends the process, and with it all that it made.
A packet enters its first link when it is read and the following ones at the computed time, so lateness does not add up.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import select
import signal
import sys
import time

from lockstep.base.types.plain import Json
from lockstep.run.machine import scheduling_class
from lockstep.run.rig import namespace
from lockstep.simulate.play.topology import FifoLink, FifoLinks, LinkCount

PR_SET_TIMERSLACK = 29  # linux/prctl.h
LARGEST_PACKET_B = 65536
# Packets read from one device before those that are due are written; their mean lateness is some 50 us (measured).
BURST = 16
LOOK_AROUND_S = 0.5
PRIORITY = 50  # assumed: above everything that is not real-time, below the kernel's own threads


class Emulator:
    """Hosts, links, and the loop between them."""

    def __init__(self, order: Json) -> None:
        self.links = FifoLinks([_link(link) for link in order["links"]], order["seed"])
        self.paths = [[tuple(path) for path in row] for row in order["paths"]]
        hosts = range(len(self.paths))
        self.hosts = [namespace.make(host, order["mtu_B"], order["congestion_control"]) for host in hosts]
        self.by_file = {host.tun: number for number, host in enumerate(self.hosts)}
        self.refused = 0
        self.late_s = self.latest_s = 0.0
        self.delivered = 0

    def hosts_said(self) -> Json:
        """What the parent needs to know: process and file of every namespace, addresses, what was chosen."""
        own = f"/proc/{os.getpid()}/fd"
        return {
            "hosts": [{"namespace": f"{own}/{host.net}", "address": host.address} for host in self.hosts],
            "congestion_control": self.hosts[0].congestion_control,
            "scheduling": scheduling_class(),
        }

    def run(self) -> None:
        """Until the parent closes stdin or is gone."""
        files, parent = [*self.by_file, 0], os.getppid()
        while os.getppid() == parent:
            wait_s = self.links.next_at - time.monotonic()
            ready, _, _ = select.select(files, (), (), min(max(0.0, wait_s), LOOK_AROUND_S))
            for file in ready:
                if file:
                    self._read(file, self.by_file[file])
                elif not self._answer():
                    return
            self._write(time.monotonic())

    def _read(self, file: int, source: int) -> None:
        for _ in range(BURST):
            try:
                packet = os.read(file, LARGEST_PACKET_B)
            except BlockingIOError:
                return
            destination = namespace.host_of(packet)
            if 0 <= destination < len(self.hosts) and destination != source:
                self.links.enter((destination, packet), len(packet), self.paths[source][destination], time.monotonic())

    def _write(self, now: float) -> None:
        for at, (destination, packet) in self.links.advance(now):
            late_s = time.monotonic() - at
            self.late_s += late_s
            self.latest_s = max(self.latest_s, late_s)
            self.delivered += 1
            try:
                os.write(self.hosts[destination].tun, packet)
            except OSError:
                self.refused += 1

    def _answer(self) -> bool:
        """One request of the parent; False when it has gone."""
        line = sys.stdin.readline().strip()
        if line == "reset":
            self.links.counts = [LinkCount(link.name) for link in self.links.links]
            self.late_s = self.latest_s = 0.0
            self.delivered = self.refused = 0
        _say(self._counted())
        return bool(line)

    def _counted(self) -> Json:
        return {
            "links": [count.to_dict() for count in self.links.counts],
            "refused": self.refused,
            "mean_late_s": self.late_s / self.delivered if self.delivered else 0.0,
            "max_late_s": self.latest_s,
            "processor_s": time.process_time(),
        }


def _link(given: Json) -> FifoLink:
    """A link of the order; null stands for infinity."""
    values: Json = {name: math.inf if value is None else value for name, value in given.items()}
    return FifoLink(**values)


def _say(answer: Json) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _become_prompt() -> None:
    """Wakes on the microsecond, and runs before ordinary processes where that is allowed."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except PermissionError:
        return


def main() -> None:
    """Reads the order, makes the hosts, runs; an error of the kernel is answered in one line."""
    _become_prompt()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    order = json.loads(sys.stdin.readline())
    try:
        emulator = Emulator(order)
    except OSError as error:
        _say({"error": error.strerror or str(error)})
        return
    _say(emulator.hosts_said())
    emulator.run()


if __name__ == "__main__":
    main()
