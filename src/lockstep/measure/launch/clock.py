"""`Clock`: the monotonic clock that a rank stamps its operations with.

Ranks of one machine read the same clock, ranks of different machines never do. Tests on one machine make clocks differ:
LOCKSTEP_CLOCK_SKEWS, a JSON list with (seconds ahead, drift) of every rank, shifts them and lets them run fast or slow.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SKEWS = "LOCKSTEP_CLOCK_SKEWS"
BOOT = Path("/proc/sys/kernel/random/boot_id")
OFFSETS = Path("/proc/self/timens_offsets")
"""What a time namespace adds to the clocks (time_namespaces(7)): containers of one machine may differ."""


@dataclass(frozen=True, slots=True)
class Clock:
    """CLOCK_MONOTONIC t as t + ahead_s + drift_frac t; without either outside of tests."""

    ahead_s: float = 0.0
    drift_frac: float = 0.0

    def now_ns(self) -> int:
        """Nanoseconds since some moment that is the clock's own."""
        now = time.monotonic_ns()
        return now + round(1e9 * self.ahead_s + self.drift_frac * now) if self.ahead_s or self.drift_frac else now

    def name(self, rank: int) -> str:
        """The same text for ranks that read the same clock, and for no others."""
        machine = boot() or f"of rank {rank}"
        offsets = " ".join(OFFSETS.read_text(encoding="ascii").split()) if OFFSETS.exists() else ""
        return f"{machine} {offsets} {self.ahead_s} {self.drift_frac}"


def boot() -> str:
    """The same text for all processes of a machine until it starts again; empty where nothing tells."""
    return BOOT.read_text(encoding="ascii").strip() if BOOT.exists() else ""


def clock_of(rank: int, environment: Mapping[str, str] | None = None) -> Clock:
    """The clock of a rank: the machine's own, unless a test says otherwise."""
    skews = (os.environ if environment is None else environment).get(SKEWS)
    return Clock(*json.loads(skews)[rank]) if skews else Clock()
