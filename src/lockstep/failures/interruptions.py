"""The published table of interruptions of Llama 3 405B, as data: 419 unexpected ones in 54 days on 16,384 H100.

Source: Llama Team, "The Llama 3 Herd of Models", arXiv 2407.21783, 2024, table 5; rows in tables/ keep their source.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lockstep.failures.failures import Cause, Failures

_TABLE = Path(__file__).with_name("tables") / "llama3_interruptions.csv"
DAY_S = 86_400.0
DEVICES_PER_NODE = 8


@dataclass(frozen=True, slots=True)
class Interruption:
    """One row: how often a cause stopped the run."""

    cause: str
    kind: str
    """What failed, in the words of `failures.KINDS`; unplanned maintenance is a node's, unknown causes software's."""
    count: int
    source: str


@dataclass(frozen=True, slots=True)
class Observed:
    """Interruptions counted over a while on a number of devices."""

    rows: tuple[Interruption, ...]
    devices: int
    time_s: float

    @property
    def count(self) -> int:
        """All interruptions."""
        return sum(row.count for row in self.rows)

    @property
    def mtbf_s(self) -> float:
        """Mean time between interruptions of the whole job."""
        return self.time_s / self.count

    @property
    def device_mtbf_s(self) -> float:
        """The same per device: a job on n devices stops every device_mtbf_s / n."""
        return self.mtbf_s * self.devices

    def failures(self, devices: int) -> Failures:
        """What to expect on another number of devices: every cause grows with the devices, per node for nodes."""
        causes = []
        for kind in ("device", "node", "switch", "software"):
            count = sum(row.count for row in self.rows if row.kind == kind)
            units = 1 if kind == "device" else DEVICES_PER_NODE
            causes.append(
                Cause(
                    kind, devices / units, self.time_s * self.devices / units / count, int(kind in ("device", "node"))
                )
            )
        return Failures(tuple(causes))


@lru_cache(maxsize=1)
def llama3() -> Observed:
    """The table of Llama 3."""
    with _TABLE.open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    rows = tuple(Interruption(row["cause"], row["kind"], int(row["count"]), row["source"]) for row in found)
    return Observed(rows, int(found[0]["devices"]), float(found[0]["days"]) * DAY_S)
