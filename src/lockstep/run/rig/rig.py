"""`Rig`: the hosts and links of a topology, made for as long as a `with` lasts.

    with Rig(star_topology(4, rate_Bps=12.5e6, delay_s=5e-3)) as rig:
        launch(worker, ranks=4, hosts=rig.hosts)
        rig.count().links[0].size_B

Each `Host` names the network namespace, interface and address of one rank. Nothing outlives the `with` or the process.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from contextlib import suppress
from types import TracebackType

from lockstep.base.errors import BadInput
from lockstep.base.records import asdict, dataclass
from lockstep.base.types.plain import Json
from lockstep.run.launch import Host
from lockstep.run.rig.namespace import INTERFACE, why_not
from lockstep.simulate.play import LinkCount, Topology

SMALLEST_MTU_B, LARGEST_MTU_B = 576, 65000  # RFC 791; linux/if_tun.h allows 65535 less headers
LEAVE_S = 10.0


@dataclass(frozen=True, slots=True)
class Counts:
    """What the links carried since the last reset, and how punctual the emulator was."""

    links: tuple[LinkCount, ...]
    mean_late_s: float
    max_late_s: float
    refused: int
    """Packets that a host's kernel did not take."""
    processor_s: float
    """Processor time of the emulator since its start."""


class Rig:
    """A topology with real hosts. `hosts`: one per host number, for `launch`."""

    def __init__(
        self, topology: Topology, *, mtu_B: int = 9000, congestion_control: str = "reno", seed: int = 0
    ) -> None:
        if not SMALLEST_MTU_B <= mtu_B <= LARGEST_MTU_B:
            raise BadInput(f"must be {SMALLEST_MTU_B} to {LARGEST_MTU_B} B, got {mtu_B}", "mtu")
        self.topology = topology
        self.mtu_B = mtu_B
        self.hosts: tuple[Host, ...] = ()
        self.congestion_control = congestion_control
        self.scheduling = ""
        self._seed = seed
        self._emulator: subprocess.Popen[str] | None = None

    def __enter__(self) -> Rig:
        """Starts the emulator. Raises BadInput where the machine does not permit it."""
        if reason := why_not():
            raise BadInput(f"links cannot be shaped here: {reason}", "rig")
        command = [sys.executable, "-P", "-m", "lockstep.run.rig.emulator"]
        self._emulator = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            made = self._ask(json.dumps(self._order()))
            if "error" in made:
                raise BadInput(f"links cannot be shaped here: {made['error']}", "rig")
        except BaseException:
            self.close()
            raise
        self.hosts = tuple(Host(host["namespace"], INTERFACE, host["address"]) for host in made["hosts"])
        self.congestion_control, self.scheduling = made["congestion_control"], made["scheduling"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the emulator; the kernel takes the hosts and links back with it."""
        emulator, self._emulator, self.hosts = self._emulator, None, ()
        if emulator is None or emulator.stdin is None or emulator.stdout is None:
            return
        # One that was killed cannot read what may still be buffered.
        with suppress(BrokenPipeError):
            emulator.stdin.close()
        try:
            emulator.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            emulator.kill()
            emulator.wait()
        emulator.stdout.close()

    @property
    def pid(self) -> int:
        """Process of the emulator."""
        return self._running().pid

    def count(self) -> Counts:
        """Counters since the start or the last reset."""
        return _counts(self._ask("count"))

    def reset(self) -> None:
        """Sets all counters to zero."""
        self._ask("reset")

    def _running(self) -> subprocess.Popen[str]:
        if self._emulator is None:
            raise BadInput("the rig is not running; use it in a `with`", "rig")
        return self._emulator

    def _order(self) -> Json:
        """The topology as JSON; an infinite rate or queue is null."""
        links = [
            {name: None if value == math.inf else value for name, value in asdict(link).items()}
            for link in self.topology.links
        ]
        return {
            "links": links,
            "paths": self.topology.paths,
            "mtu_B": self.mtu_B,
            "congestion_control": self.congestion_control,
            "seed": self._seed,
        }

    def _ask(self, line: str) -> Json:
        emulator = self._running()
        if emulator.stdin is None or emulator.stdout is None:
            raise BadInput("the rig is not running; use it in a `with`", "rig")
        try:
            emulator.stdin.write(line + "\n")
            emulator.stdin.flush()
            answer = emulator.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise BadInput("the emulator has ended; its message is on stderr", "rig")
        found: Json = json.loads(answer)
        return found


def _counts(found: Json) -> Counts:
    links = tuple(LinkCount(**link) for link in found["links"])
    return Counts(links, found["mean_late_s"], found["max_late_s"], found["refused"], found["processor_s"])
