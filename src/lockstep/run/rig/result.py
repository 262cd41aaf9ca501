"""What a race on the rig gives: every entrant predicted and measured, and what both are worth.

`crossings`: sizes at which the faster of two algorithms changes, in the predictions and in the measurements.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import combinations, pairwise

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.shown import Shown
from lockstep.base.units import format_frac, format_time
from lockstep.run.machine import Machine
from lockstep.run.rig.calibration import Calibration
from lockstep.run.rig.capacity import Capacity
from lockstep.run.rig.rig import Counts
from lockstep.simulate.play import Topology

LATE_FRAC, BUSY_FRAC, SLOW_FRAC = 0.02, 0.5, 0.9
"""Mean lateness of packets over the delay, the emulator's share of a core, rate found over rate asked for; assumed."""
SAME_FRAC = 0.005
"""Predictions nearer to one another than this at all sizes are taken for equal."""


@dataclass(frozen=True, slots=True)
class Lap:
    """One entrant at one size."""

    algorithm: str
    size_B: int
    predicted_s: float
    measured_s: float
    """Median of the repeats."""
    fastest_s: float
    slowest_s: float
    wrong: int
    """Results, of all ranks and repeats, that are not what the program gives in one process."""

    @property
    def error_frac(self) -> float:
        """(predicted - measured) / measured: above 0 the prediction is pessimistic."""
        return self.predicted_s / self.measured_s - 1

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "algorithm size_B predicted_s measured_s error_frac fastest_s slowest_s wrong")


@dataclass(frozen=True, slots=True, repr=False)
class Race(Shown):
    """Predictions beside measurements on one topology."""

    op: str
    topology: Topology
    ranks: int
    repeats: int
    mtu_B: int
    calibration: Calibration
    laps: tuple[Lap, ...]
    crossings: tuple[Crossing, ...]
    counts: Counts
    emulator_scheduling: str
    machine: Machine
    emulator_busy_frac: float
    """Of a core, while programs ran, sends and receives included."""
    ranks_busy_frac: float
    """Of all cores, by the ranks together, meanwhile."""
    capacity: Capacity | None = None
    """Of the machine, measured before; None without such a measurement."""
    limits: tuple[str, ...] = ()
    """Where the machine and not the links may set the pace."""

    @property
    def ok(self) -> bool:
        """Whether every rank of every run had the right result."""
        return not any(lap.wrong for lap in self.laps)

    @property
    def median_error_frac(self) -> float:
        """Median of the absolute errors."""
        return statistics.median(abs(lap.error_frac) for lap in self.laps)

    @property
    def worst(self) -> Lap:
        """The lap predicted worst."""
        return max(self.laps, key=lambda lap: abs(lap.error_frac))

    @property
    def disturbances(self) -> tuple[str, ...]:
        """Signs that the processors and not the links set the pace meanwhile."""
        said = []
        delay_s = max(self.topology.delay_s(0, host) for host in range(1, self.ranks))
        if self.counts.mean_late_s > LATE_FRAC * delay_s:
            said.append(f"packets were late by {format_frac(self.counts.mean_late_s / delay_s, 2)} of the delay")
        if self.emulator_busy_frac > BUSY_FRAC:
            said.append(f"the emulator was busy {format_frac(self.emulator_busy_frac, 2)} of the time")
        if self.calibration.rate_frac < SLOW_FRAC:
            said.append(f"the links reached {format_frac(self.calibration.rate_frac, 2)} of the rate asked for")
        return tuple(f"{one}: this machine, and not the links, may have set the pace" for one in said)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the prediction takes for granted, and what the measurement is worth."""
        busy = f"it was busy {format_frac(self.emulator_busy_frac, 2)} of the time"
        unseen = ("the prediction is for the same links without jitter and loss",) if self.topology.is_random else ()
        return (
            "overheads and rates fitted on sends and receives alone, before any collective ran",
            "messages wait for the receiver's notice; every link is a first-in-first-out queue, store and forward",
            *unseen,
            f"median of {self.repeats} repeats, all ranks starting at one moment",
            f"TCP {self.machine.congestion_control}, MTU {self.mtu_B} B, ranks scheduled as {self.machine.scheduling}, "
            f"emulator as {self.emulator_scheduling}",
            f"the emulator wrote packets {format_time(self.counts.mean_late_s)} late on average, "
            f"{format_time(self.counts.max_late_s)} at most; {busy}, the ranks used "
            f"{format_frac(self.ranks_busy_frac, 2)} of the cores",
            *self.limits,
            *self.disturbances,
            *self.machine.warnings(self.ranks),
        )

    def summary(self) -> Json:
        """Plain JSON form without the rows, as a kept run's answer."""
        return {name: value for name, value in self.to_dict().items() if name != "rows"}

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "op": self.op,
            "topology": self.topology.name,
            "ranks": self.ranks,
            "hosts": self.topology.hosts,
            **picked(self, "repeats mtu_B ok median_error_frac calibration"),
            "rows": plain(self.laps),
            "crossovers": plain(self.crossings),
            "links": plain(self.counts.links),
            "emulator": {
                "scheduling": self.emulator_scheduling,
                **picked(self.counts, "mean_late_s max_late_s"),
                "busy_frac": self.emulator_busy_frac,
                "capacity": plain(self.capacity),
            },
            **picked(self, "ranks_busy_frac machine assumptions"),
        }


@dataclass(frozen=True, slots=True)
class Crossing:
    """Two algorithms and the first size at which they tie; None where they do not within the sizes."""

    first: str
    second: str
    predicted_B: float | None
    measured_B: float | None

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def crossings(laps: Sequence[Lap]) -> tuple[Crossing, ...]:
    """All pairs of algorithms whose order changes between two neighbouring sizes, predicted or measured."""
    names = tuple(dict.fromkeys(lap.algorithm for lap in laps))
    found = (_crossing(laps, first, second) for first, second in combinations(names, 2) if _differ(laps, first, second))
    return tuple(one for one in found if one.predicted_B is not None or one.measured_B is not None)


def _differ(laps: Sequence[Lap], first: str, second: str) -> bool:
    """Whether the predictions differ at all: equal ones are in an order that only noise decides."""
    one, other = ({lap.size_B: lap.predicted_s for lap in laps if lap.algorithm == name} for name in (first, second))
    return any(abs(one[size_B] - other[size_B]) > SAME_FRAC * one[size_B] for size_B in set(one) & set(other))


def _crossing(laps: Sequence[Lap], first: str, second: str) -> Crossing:
    one, other = ({lap.size_B: lap for lap in laps if lap.algorithm == name} for name in (first, second))
    sizes = sorted(set(one) & set(other))
    predicted = [one[size_B].predicted_s - other[size_B].predicted_s for size_B in sizes]
    measured = [one[size_B].measured_s - other[size_B].measured_s for size_B in sizes]
    return Crossing(first, second, tie_B(sizes, predicted), tie_B(sizes, measured))


def tie_B(sizes_B: Sequence[float], lead_s: Sequence[float]) -> float | None:
    """The first size at which `lead_s` changes its sign, straight between neighbours; None when it never does."""
    for (low_B, low_s), (high_B, high_s) in pairwise(zip(sizes_B, lead_s, strict=True)):
        if low_s * high_s < 0:
            return low_B + (high_B - low_B) * low_s / (low_s - high_s)
    return None
