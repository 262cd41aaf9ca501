"""Calibrate on sends and receives, predict every program, and only then measure: `race`.

    1. trials of `calibration` on the rig give overheads and rates (their medians; the fastest where links are random)
    2. `simulate_packets` predicts every entrant at every size
    3. the entrants run in turns, all ranks starting together; the median of the repeats is compared

A measured time is from the last rank's first operation to the last rank's end.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from lockstep.base.types.progress import Progress
from lockstep.run.launch import launch
from lockstep.run.launch.rank import boot
from lockstep.run.machine import Load, Machine, with_load
from lockstep.run.rig.calibration import calibrate, trials
from lockstep.run.rig.capacity import Capacity
from lockstep.run.rig.entrants import Group, entrant
from lockstep.run.rig.result import Lap, Race, crossings
from lockstep.run.rig.rig import Rig
from lockstep.run.rig.worker import Part, Report, part, run_parts
from lockstep.simulate.play import Protocol, Topology, simulate_packets
from lockstep.simulate.program import Program

HEADER_B = 52  # IP 20, TCP 20, timestamps 12: RFC 791, 9293, 7323
LEAST_TRIES = 5
"""Repeats of a send and receive, so that their median stands a busy moment."""
LONGEST_WAIT_S = 60.0
"""Of a rank for its peers, beside the time that the program takes."""


def race(
    rig: Rig,
    op: str,
    group: Group,
    algorithms: Sequence[str],
    sizes_B: Sequence[int],
    *,
    repeats: int = 5,
    warm_up: int = 1,
    capacity: Capacity | None = None,
    limits: tuple[str, ...] = (),
    report: Progress | None = None,
) -> Race:
    """Predicted and measured seconds of every algorithm of a collective at every size, on a running rig.

    `capacity` of the machine and its `limits` go into the answer; `report(done, total)` hears of every run.
    Raises: BadInput, UnknownName, RunFailed.
    """
    group = group.on(rig.topology)
    names = [(name, size_B) for size_B in sizes_B for name in algorithms]
    parts = [part(name.replace("-", "_"), entrant(op, name, group, size_B), group.ranks) for name, size_B in names]
    known = trials(rig.topology, group.ranks)
    tries = max(LEAST_TRIES, repeats)
    steps = _Steps(len(known) * (tries + warm_up) + len(parts) * (repeats + warm_up), report)
    runs = _Runs(rig, group, warm_up, steps)
    typical = min if rig.topology.is_random else statistics.median
    tried, _ = runs.of([part("send_and_receive", trial.program, group.ranks) for trial in known], tries)
    fitted = calibrate(known, [typical(times_s) for times_s, _ in tried], rig.topology, protocol(rig.mtu_B))
    predicted = [simulate_packets(one.program, fitted.topology, fitted.protocol).makespan_s for one in parts]
    measured, machine = runs.of(parts, repeats)
    laps = tuple(
        Lap(name, size_B, predicted_s, statistics.median(times_s), min(times_s), max(times_s), wrong)
        for (name, size_B), predicted_s, (times_s, wrong) in zip(names, predicted, measured, strict=True)
    )
    return Race(
        op, rig.topology, group.ranks, repeats, rig.mtu_B, fitted, laps, crossings(laps), rig.count(), rig.scheduling,
        machine, *runs.busy_fracs(machine.cores), capacity, limits,
    )  # fmt: skip


def protocol(mtu_B: int) -> Protocol:
    """gloo over TCP with packets of that size, before anything is fitted."""
    return Protocol(payload_B=float(mtu_B - HEADER_B), header_B=float(HEADER_B))


def expected_s(topology: Topology, ranks: int, entered: Sequence[Program], repeats: int, warm_up: int = 1) -> float:
    """About how many seconds a race takes, calibration and agreements on common starts included."""
    tries = [(trial.program, max(LEAST_TRIES, repeats)) for trial in trials(topology, ranks)]
    runs = [*tries, *((program, repeats) for program in entered)]
    around_s = 2 * margin_s(topology, ranks)
    return math.fsum(
        (number + warm_up) * (simulate_packets(program, topology).makespan_s + around_s) for program, number in runs
    )


def margin_s(topology: Topology, ranks: int) -> float:
    """How long before a common start it is agreed on: a broadcast down a tree, and what a busy machine may add."""
    longest_s = max(topology.delay_s(0, host) for host in range(1, ranks))
    return 0.02 + 2 * longest_s * (math.ceil(math.log2(ranks)) + 1)


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

    def __init__(self, rig: Rig, group: Group, warm_up: int, steps: _Steps) -> None:
        self.rig, self.warm_up, self.steps = rig, warm_up, steps
        self.margin_s = margin_s(rig.topology, group.ranks)
        self.wall_s = self.emulator_s = self.ranks_s = 0.0

    def busy_fracs(self, cores: int) -> tuple[float, float]:
        """Shares of one core by the emulator, and of all cores by the ranks, while ranks ran."""
        return self.emulator_s / self.wall_s, self.ranks_s / self.wall_s / cores

    def of(self, parts: Sequence[Part], repeats: int) -> tuple[list[tuple[list[float], int]], Machine]:
        """(seconds of each repeat, wrong results) of each part, and the machine; one launch per number of ranks."""
        found: dict[int, tuple[list[float], int]] = {}
        for ranks in sorted({one.program.ranks for one in parts}):
            numbers = [number for number, one in enumerate(parts) if one.program.ranks == ranks]
            before_s = self.rig.count().processor_s
            reports = self._launched([parts[number] for number in numbers], ranks, repeats)
            found |= {number: _seen(reports, place) for place, number in enumerate(numbers)}
            emulator = Load(0.0, self.rig.count().processor_s - before_s, None, boot())
            machine = with_load(reports[0].machine, [*(one.load for one in reports), emulator])
            self.wall_s += reports[0].load.wall_s
            self.emulator_s += emulator.own_s
            self.ranks_s += sum(one.load.own_s for one in reports)
        return [found[number] for number in range(len(parts))], machine

    def _launched(self, parts: Sequence[Part], ranks: int, repeats: int) -> list[Report]:
        arguments = (tuple(parts), repeats, self.warm_up, self.margin_s)
        longest_s = max(simulate_packets(one.program, self.rig.topology).makespan_s for one in parts)
        reports = launch(
            run_parts, ranks, arguments, hosts=self.rig.hosts[:ranks], timeout_s=LONGEST_WAIT_S + 4 * longest_s,
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
