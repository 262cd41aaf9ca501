"""Failures of a job: rates of devices, nodes, switches, racks and software, composed to the time between interruptions.

    rate = sum over causes of  units / unit_mtbf_s          events per second
    mtbf = 1 / rate                                         n devices alone: unit MTBF / n
A job on all devices stops whenever any part fails. A rack or a power feed that takes many nodes down at once is one
event, one interruption: it counts once, however many devices it hits. The sum is exact for exponential times, and the
limit for many independent parts of any law (Palm and Khintchine).

Source: D. R. Cox, Renewal Theory, 1962, section 6 (superposition).

`llama3`: the published table of interruptions of Llama 3 405B, as data: 419 unexpected ones in 54 days on 16,384 H100.
Source: Llama Team, "The Llama 3 Herd of Models", arXiv 2407.21783, 2024, table 5; rows in tables/ keep their source.
"""

from __future__ import annotations

import csv
import math
from functools import lru_cache
from pathlib import Path

from lockstep.base.errors import BadInput, Infeasible, UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.simulate.machine import Machine

KINDS = ("device", "node", "switch", "rack", "power", "software")
_TABLE = Path(__file__).with_name("tables") / "llama3_interruptions.csv"
DAY_S = 86_400.0
DEVICES_PER_NODE = 8


@dataclass(frozen=True, slots=True)
class Cause:
    """One kind of event that stops the job: `units` parts, each failing every `unit_mtbf_s` on average."""

    kind: str
    units: float
    unit_mtbf_s: float
    nodes_lost: int = 1
    """Nodes whose memory is lost in one event: 0 for software, the whole rack for a rack."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownName("kind of failure", self.kind, KINDS)
        if not (self.units >= 0 and math.isfinite(self.units)):
            raise BadInput(f"{self.kind}: the number of units must be finite and not negative, got {self.units}")
        if not self.unit_mtbf_s > 0:
            raise BadInput(f"{self.kind}: the time between failures must be above 0, got {self.unit_mtbf_s}")
        if self.nodes_lost < 0:
            raise BadInput(f"{self.kind}: an event cannot lose {self.nodes_lost} nodes")

    @property
    def rate_per_s(self) -> float:
        """Events per second."""
        return self.units / self.unit_mtbf_s


@dataclass(frozen=True, slots=True)
class Failures:
    """Everything that stops a job."""

    causes: tuple[Cause, ...]

    @property
    def rate_per_s(self) -> float:
        """Interruptions per second."""
        return math.fsum(cause.rate_per_s for cause in self.causes)

    @property
    def mtbf_s(self) -> float:
        """Mean time between interruptions; infinite when nothing fails."""
        return 1 / self.rate_per_s if self.rate_per_s else math.inf

    def share_frac(self, kind: str) -> float:
        """Share of the interruptions that are of this kind."""
        if kind not in KINDS:
            raise UnknownName("kind of failure", kind, KINDS)
        rate = self.rate_per_s
        return math.fsum(cause.rate_per_s for cause in self.causes if cause.kind == kind) / rate if rate else 0.0

    def __add__(self, other: Failures) -> Failures:
        return Failures(self.causes + other.causes)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        rows = [
            picked(cause, "kind units unit_mtbf_s nodes_lost")
            | {"mtbf_s": 1 / cause.rate_per_s if cause.units else math.inf}
            for cause in self.causes
        ]
        return {"mtbf_s": self.mtbf_s, "causes": rows}


def composed(
    devices: int, *, devices_per_node: int = 8, nodes_per_rack: int = 4, nodes_per_switch: int = 32,
    device_mtbf_s: float = math.inf, node_mtbf_s: float = math.inf, switch_mtbf_s: float = math.inf,
    rack_mtbf_s: float = math.inf, power_mtbf_s: float = math.inf, software_mtbf_s: float = math.inf,
) -> Failures:  # fmt: skip
    """Failures of a job on `devices` from the MTBF of one part each; infinite = never.

    A power feed carries the whole job, software fails per job, a switch cuts its nodes off without losing their memory.
    Raises BadInput.
    """
    for name, number in (("devices", devices), ("devices_per_node", devices_per_node)):
        if number < 1:
            raise BadInput(f"{name} must be at least 1, got {number}")
    if nodes_per_rack < 1 or nodes_per_switch < 1:
        raise BadInput("nodes_per_rack and nodes_per_switch must be at least 1")
    nodes = math.ceil(devices / devices_per_node)
    racks, switches = math.ceil(nodes / nodes_per_rack), math.ceil(nodes / nodes_per_switch)
    return Failures(
        tuple(
            cause
            for cause in (
                Cause("device", devices, device_mtbf_s),
                Cause("node", nodes, node_mtbf_s),
                Cause("switch", switches, switch_mtbf_s, 0),
                Cause("rack", racks, rack_mtbf_s, min(nodes, nodes_per_rack)),
                Cause("power", 1, power_mtbf_s, nodes),
                Cause("software", 1, software_mtbf_s, 0),
            )
            if math.isfinite(cause.unit_mtbf_s)
        )
    )


def of_cluster(cluster: Machine) -> Failures:
    """Failures of a job on the whole cluster, from its catalog MTBF per device; Infeasible where it is unknown."""
    if cluster.mtbf_s is None:
        raise Infeasible(f"how often {cluster.name} fails is not known; give the time between failures (--mtbf)")
    return Failures((Cause("device", cluster.num_devices, cluster.mtbf_s),))


def finish_probability_frac(time_s: float, mtbf_s: float) -> float:
    """Probability that a run of `time_s` sees no interruption: exp(-time / MTBF), exponential times."""
    return math.exp(-time_s / mtbf_s)


@dataclass(frozen=True, slots=True)
class Interruption:
    """One row: how often a cause stopped the run."""

    cause: str
    kind: str
    """What failed, one of `failures.KINDS`; unplanned maintenance counts for a node, unknown causes for software."""
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
