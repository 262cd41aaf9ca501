"""`Points`: measured times of collectives over sizes, whoever measured them, in the conventions of nccl-tests.

`Hosts`: which devices of which hosts took part, as far as the text says it. nccl-tests prints one line per rank, `#
Rank  0 Group  0 Pid 4711 on node-1 device  0 [0000:07:00] NVIDIA H100`. Its groups are communicators of their own that
run at the same time (NCCL_TESTS_SPLIT); the times are of one of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.simulate.collectives import PlainLink, get
from lockstep.simulate.collectives.shares import FLUID

LIBRARY = {
    "all-reduce": "ring", "all-gather": "ring", "reduce-scatter": "ring", "all-to-all": "direct",
    "broadcast": "binomial", "reduce": "binomial", "scatter": "binomial", "gather": "binomial",
}  # fmt: skip
"""Algorithm that a library's own collective is taken for when none is said; assumed."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """Hosts of one group of ranks, and the devices of each that took part."""

    devices: Mapping[str, tuple[int, ...]]

    @property
    def ranks(self) -> int:
        """Ranks of the group."""
        return sum(len(devices) for devices in self.devices.values())

    @property
    def ranks_each(self) -> int:
        """Ranks per host. Raises BadInput when hosts have different numbers of them."""
        numbers = sorted({len(devices) for devices in self.devices.values()})
        if len(numbers) > 1:
            raise BadInput(
                f"hosts hold {numbers[0]} to {numbers[-1]} ranks, so no link has a rate of its own; "
                "measure with the same number on every host",
                "FILE",
            )
        return numbers[0]

    def local(self) -> tuple[int, ...]:
        """Devices of one host; numbered from 0 where the text numbers them alike, as containers do."""
        devices = next(iter(self.devices.values()))
        return devices if len(set(devices)) == len(devices) else tuple(range(len(devices)))

    def __str__(self) -> str:
        hosts = len(self.devices)
        return f"{self.ranks} ranks on one host" if hosts == 1 else f"{self.ranks} ranks on {hosts} hosts"


@dataclass(frozen=True, slots=True)
class Point:
    """One measured time. `algorithm` is a name of Lockstep's, or empty for a library's own."""

    op: str
    algorithm: str
    ranks: int
    size_B: float
    time_s: float

    def __str__(self) -> str:
        name = f"{self.op} {self.algorithm}".strip()
        return f"{name} of {self.size_B:,.0f} B in {self.time_s * 1e6:,.1f} us"


@dataclass(frozen=True, slots=True)
class Points:
    """Measured times and where they come from."""

    points: tuple[Point, ...]
    source: str
    date: str
    notes: tuple[str, ...] = ()
    hosts: Hosts | None = None
    """Who took part, where the text says it."""

    @property
    def label(self) -> str:
        """Collectives and ranks, `all-reduce of 8 ranks on one host`."""
        names = ", ".join(dict.fromkeys(point.op for point in self.points))
        ranks = sorted({point.ranks for point in self.points})
        numbers = f"{ranks[0]} ranks" if len(ranks) == 1 else f"{ranks[0]} to {ranks[-1]} ranks"
        return f"{names} of {numbers if self.hosts is None else self.hosts}"

    def terms(self, taken_for: str | None = None) -> Array:
        """Latency steps, bytes in series and reduced bytes in series of every point, shape (points, 3).

        A library's own collective counts as `taken_for`, or as LIBRARY says. Raises BadInput for an algorithm whose
        steps depend on the link that is to be found, and for `taken_for` where every time names its own.
        """
        if taken_for is not None and all(point.algorithm or point.op == "send-recv" for point in self.points):
            raise BadInput(
                "is for times of a library's own collective; all of these name their algorithm", "--algorithm"
            )
        return np.array([_terms(point, taken_for) for point in self.points])


def _terms(point: Point, taken_for: str | None) -> tuple[float, float, float]:
    if point.op == "send-recv":
        return 1.0, point.size_B, 0.0
    name = point.algorithm or taken_for or LIBRARY.get(point.op, "")
    chosen = get(point.op, name)
    # Choices that follow from the link would make its constants their own cause: two links that differ show them.
    links = PlainLink(1e-6, 1e9), PlainLink(1e-4, 1e11)
    found = [chosen.terms(float(point.ranks), point.size_B, link, FLUID) for link in links]
    first, second = ((float(t.steps), float(t.critical_B), float(t.reduced_B)) for t in found)
    if first != second:
        raise BadInput(
            f"{point.op} {name} cuts its messages by the link; leave it out, or fit on another", "--algorithm"
        )
    return first
