"""Calibrate on sends and receives, predict every program, and only then measure: `race`.

    1. trials of `calibration` on the rig give overheads and rates
    2. `simulate_packets` predicts every entrant at every size
    3. the entrants run in turns, all ranks starting together; the median of the repeats is compared

A measured time is from the last rank's first operation to the last rank's end.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lockstep.measure.launch import launch
from lockstep.measure.machine import Load, Machine, with_load
from lockstep.measure.rig.calibration import Calibration, calibrate, trials
from lockstep.measure.rig.crossing import Crossing, crossings
from lockstep.measure.rig.entrants import Group, entrant
from lockstep.measure.rig.rig import Counts, Rig
from lockstep.measure.rig.worker import Part, Report, part, run_parts
from lockstep.simulate import Protocol, Topology, simulate_packets
from lockstep.units import format_time

HEADER_B = 52  # IP 20, TCP 20, timestamps 12: RFC 791, 9293, 7323
Progress = Callable[[int, int], None]


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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            "algorithm": self.algorithm,
            "size_B": self.size_B,
            "predicted_s": self.predicted_s,
            "measured_s": self.measured_s,
            "error_frac": self.error_frac,
            "fastest_s": self.fastest_s,
            "slowest_s": self.slowest_s,
            "wrong": self.wrong,
        }


@dataclass(frozen=True, slots=True)
class Race:
    """Predictions beside measurements on one topology."""

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
    def assumptions(self) -> tuple[str, ...]:
        """What the prediction takes for granted, and what the measurement is worth."""
        jitter_or_loss = any(link.jitter_s or link.loss_frac for link in self.topology.links)
        unseen = ("the prediction knows nothing of jitter and loss",) if jitter_or_loss else ()
        return (
            "overheads and rates fitted on sends and receives alone, before any collective ran",
            "messages wait for the receiver's notice; every link is a first-in-first-out queue, store and forward",
            *unseen,
            f"median of {self.repeats} repeats, all ranks starting at one moment",
            f"TCP {self.machine.congestion_control}, MTU {self.mtu_B} B, ranks scheduled as {self.machine.scheduling}, "
            f"emulator as {self.emulator_scheduling}",
            f"the emulator wrote packets {format_time(self.counts.mean_late_s)} late on average, "
            f"{format_time(self.counts.max_late_s)} at most",
            *self.machine.warnings(self.ranks),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            "topology": self.topology.name,
            "ranks": self.ranks,
            "hosts": self.topology.hosts,
            "repeats": self.repeats,
            "mtu_B": self.mtu_B,
            "ok": self.ok,
            "median_error_frac": self.median_error_frac,
            "calibration": self.calibration.to_dict(),
            "rows": [lap.to_dict() for lap in self.laps],
            "crossovers": [crossing.to_dict() for crossing in self.crossings],
            "links": [link.to_dict() for link in self.counts.links],
            "emulator": {
                "scheduling": self.emulator_scheduling,
                "mean_late_s": self.counts.mean_late_s,
                "max_late_s": self.counts.max_late_s,
            },
            "machine": self.machine.to_dict(),
            "assumptions": list(self.assumptions),
        }


def race(
    rig: Rig,
    group: Group,
    algorithms: Sequence[str],
    sizes_B: Sequence[int],
    *,
    repeats: int = 5,
    warm_up: int = 1,
    timeout_s: float = 60.0,
    report: Progress | None = None,
) -> Race:
    """Predicted and measured seconds of every algorithm at every size, on a running rig.

    `report(done, total)` hears of every run. Raises: BadInput, UnknownName, RunFailed.
    """
    names = [(name, size_B) for size_B in sizes_B for name in algorithms]
    parts = [part(name.replace("-", "_"), entrant(name, group, size_B), group.ranks) for name, size_B in names]
    known = trials(rig.topology, group.ranks)
    steps = _Steps((len(known) + len(parts)) * (repeats + warm_up), report)
    runs = _Runs(rig, repeats, warm_up, timeout_s, steps)
    tried, _ = runs.of([part("send_and_receive", trial.program, group.ranks) for trial in known])
    fitted = calibrate(known, [statistics.median(times_s) for times_s, _ in tried], rig.topology, protocol(rig.mtu_B))
    predicted = [simulate_packets(one.program, fitted.topology, fitted.protocol).makespan_s for one in parts]
    measured, machine = runs.of(parts)
    laps = tuple(
        Lap(name, size_B, predicted_s, statistics.median(times_s), min(times_s), max(times_s), wrong)
        for (name, size_B), predicted_s, (times_s, wrong) in zip(names, predicted, measured, strict=True)
    )
    counts = rig.count()
    return Race(
        rig.topology, group.ranks, repeats, rig.mtu_B, fitted, laps, crossings(laps), counts, rig.scheduling, machine
    )  # fmt: skip


def protocol(mtu_B: int) -> Protocol:
    """gloo over TCP with packets of that size, before anything is fitted."""
    return Protocol(payload_B=float(mtu_B - HEADER_B), header_B=float(HEADER_B))


class _Steps:
    """Counts runs for a progress bar, over several launches."""

    def __init__(self, total: int, report: Progress | None) -> None:
        self.total, self.report, self.before, self.done = total, report, 0, 0

    def hear(self, rank: int, done: int) -> None:
        """A rank has finished that many runs of this launch."""
        if rank == 0:
            self.done = done
            if self.report is not None:
                self.report(self.before + done, self.total)

    def next_launch(self) -> None:
        """What comes counts on top."""
        self.before, self.done = self.before + self.done, 0


class _Runs:
    """Runs parts on the rig and brings back seconds and wrong results of each."""

    def __init__(self, rig: Rig, repeats: int, warm_up: int, timeout_s: float, steps: _Steps) -> None:
        self.rig, self.repeats, self.warm_up, self.timeout_s, self.steps = rig, repeats, warm_up, timeout_s, steps
        slowest_s = max((link.delay_s for link in rig.topology.links), default=0.0)
        # A broadcast of one number takes a few latencies, and a busy machine some milliseconds.
        self.margin_s = 0.02 + 16 * slowest_s

    def of(self, parts: Sequence[Part]) -> tuple[list[tuple[list[float], int]], Machine]:
        """(seconds of each repeat, wrong results) of each part, and the machine; one launch per number of ranks."""
        found: dict[int, tuple[list[float], int]] = {}
        for ranks in sorted({one.program.ranks for one in parts}):
            numbers = [number for number, one in enumerate(parts) if one.program.ranks == ranks]
            before_s = self.rig.count().processor_s
            reports = self._launched([parts[number] for number in numbers], ranks)
            found |= {number: _seen(reports, place) for place, number in enumerate(numbers)}
            emulator = Load(0.0, self.rig.count().processor_s - before_s, None)
            machine = with_load(reports[0].machine, [*(one.load for one in reports), emulator])
        return [found[number] for number in range(len(parts))], machine

    def _launched(self, parts: Sequence[Part], ranks: int) -> list[Report]:
        arguments = (tuple(parts), self.repeats, self.warm_up, self.margin_s)
        reports = launch(
            run_parts, ranks, arguments, hosts=self.rig.hosts[:ranks], timeout_s=self.timeout_s,
            on_message=self.steps.hear,
        )  # fmt: skip
        self.steps.next_launch()
        return reports


def _seen(reports: Sequence[Report], number: int) -> tuple[list[float], int]:
    """Seconds of each repeat of a part, and its wrong results on all ranks."""
    by_rank = [[turn for turn in report.turns if turn.part == number] for report in reports]
    times_s = [
        max(turn.last_end_s for turn in turns) - max(turn.first_start_s for turn in turns)
        for turns in zip(*by_rank, strict=True)
    ]
    return times_s, sum(turn.wrong for turns in by_rank for turn in turns)
