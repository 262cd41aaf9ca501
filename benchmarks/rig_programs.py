"""Every program of every collective on shaped links: predicted, then measured, as tables; worst programs first.

    python benchmarks/rig_programs.py rows.csv [--topology flat] [--delays 5ms,10ms,20ms] [--collectives all-reduce,...]
                                      [--sizes 4KiB,64KiB,256KiB,1MiB] [--repeats 3]

Four ranks, a host each, 100 Mbit/s a link; needs root. Every collective is a race of its own: overheads and rates are
fitted on its sends and receives, all its programs are predicted, and only then do they run. Races whose rows the file
has already are not run again, so that what was stopped goes on; all of it takes twenty minutes. A race in which packets
were late by more than 0.1 ms on average, or a run took more than twice the fastest of its program, was disturbed by
other work and is run again, three times at most. Ends with 1 when the median error of a program is beyond 10 %, or a
result is wrong.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import lockstep
from lockstep.base.units import format_size, format_time
from lockstep.run.rig import entrants
from lockstep.run.rig.entrants import SCATTERED
from lockstep.run.rig.result import Lap
from lockstep.simulate.collectives import ops

BAR_FRAC = 0.10
RANKS = 4
LATE_S, SPREAD, TRIES = 1e-4, 2.0, 3
KINDS: dict[str, type] = {"int": int, "float": float, "str": str}
"""What a cell of the file may hold."""


@dataclass(frozen=True, slots=True)
class Row:
    """One program at one size and delay, beside the race that it ran in."""

    topology: str
    delay: str
    op: str
    lap: Lap
    latency_s: float
    rate_frac: float
    worst_trial_frac: float
    foreign_cores: float
    mean_late_s: float
    repeats: int

    @property
    def program(self) -> tuple[str, str]:
        """Collective and algorithm."""
        return self.op, self.lap.algorithm


def undisturbed(topology: str, delay: str, op: str, sizes: str, repeats: int) -> list[Row]:
    """The first race that nothing else disturbed, else the last."""
    for _ in range(TRIES):
        rows = raced(topology, delay, op, sizes, repeats)
        if all(row.mean_late_s <= LATE_S and row.lap.slowest_s <= SPREAD * row.lap.fastest_s for row in rows):
            break
    return rows


def raced(topology: str, delay: str, op: str, sizes: str, repeats: int) -> list[Row]:
    """One race of all algorithms of a collective but the scattered ring, which without nodes is the ring."""
    names = ",".join(name for name in entrants(op) if name != SCATTERED)
    found = lockstep.rig(op, topology=topology, ranks=RANKS, delay=delay, size=sizes, repeats=repeats, algorithm=names)
    fitted, cores, late_s = found.calibration, found.machine.foreign_cores or 0.0, found.counts.mean_late_s
    return [
        Row(
            topology, delay, op, lap, fitted.latency_s, fitted.rate_frac, fitted.worst_frac, cores, late_s, repeats,
        )
        for lap in found.laps
    ]  # fmt: skip


def read(path: Path) -> list[Row]:
    """What the file has."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [Row(lap=Lap(**_values(Lap, row)), **_values(Row, row)) for row in csv.DictReader(file)]


def _values(kind: type[Row] | type[Lap], row: Mapping[str, str]) -> dict[str, Any]:
    """Fields of `kind` that a cell holds, as numbers and words."""
    return {one.name: KINDS[str(one.type)](row[one.name]) for one in fields(kind) if str(one.type) in KINDS}


def line(row: Row) -> dict[str, Any]:
    """A line of the file: the fields, those of the lap in its place."""
    return {
        name: value
        for field, held in asdict(row).items()
        for name, value in (held.items() if field == "lap" else [(field, held)])
    }


def append(path: Path, rows: Sequence[Row]) -> None:
    """Adds rows to the file."""
    lines = [line(row) for row in rows]
    new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(lines)


def percent(frac: float) -> str:
    """Without a sign."""
    return f"{100 * frac:.1f} %"


def median_frac(rows: Iterable[Row]) -> float:
    """Of the absolute errors."""
    return statistics.median(abs(row.lap.error_frac) for row in rows)


def races(rows: Sequence[Row]) -> None:
    """Prints what was fitted, and how quiet the machine was."""
    print("| delay | collective | alpha | rate | trials within | others' cores | packets late |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for row in {(row.delay, row.op): row for row in rows}.values():
        fitted = f"{format_time(row.latency_s)} | {row.rate_frac:.3f} | {percent(row.worst_trial_frac)}"
        print(f"| {row.delay} | {row.op} | {fitted} | {row.foreign_cores:.1f} | {format_time(row.mean_late_s)} |")


def summary(rows: Sequence[Row], delays: Sequence[str]) -> float:
    """Prints the median error of each program by delay and over all, largest first; returns the largest."""
    print(f"\n| collective | algorithm | {' | '.join(delays)} | all | worst |\n|---|---|{'---:|' * (len(delays) + 2)}")
    found = {key: median_frac(row for row in rows if row.program == key) for key in {row.program for row in rows}}
    for key, median in sorted(found.items(), key=lambda item: (-item[1], item[0])):
        own = [row for row in rows if row.program == key]
        cells = [percent(median_frac(row for row in own if row.delay == delay)) for delay in delays]
        worst = max((row.lap.error_frac for row in own), key=abs)
        print(f"| {' | '.join((*key, *cells, percent(median)))} | {100 * worst:+.1f} % |")
    return max(found.values())


def table(rows: Sequence[Row], delay: str) -> None:
    """Prints predicted, measured and error of every program at every size."""
    sizes_B = sorted({row.lap.size_B for row in rows})
    print(f"\n{delay} one way: predicted, measured, error\n")
    print(f"| collective | algorithm | {' | '.join(format_size(size_B) for size_B in sizes_B)} | median |")
    print("|---|---|" + "---:|" * (len(sizes_B) + 1))
    here = [row for row in rows if row.delay == delay]
    for key in dict.fromkeys(row.program for row in here):
        own = [row for row in here if row.program == key]
        print(f"| {' | '.join((*key, *(cell(row) for row in own), percent(median_frac(own))))} |")


def cell(row: Row) -> str:
    """Predicted, measured, error."""
    return f"{format_time(row.lap.predicted_s)}, {format_time(row.lap.measured_s)}, {100 * row.lap.error_frac:+.1f} %"


def main() -> int:
    """Runs what is missing, then prints the tables."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("rows", type=Path)
    words.add_argument("--topology", default="flat", choices=("flat", "star"))
    words.add_argument("--delays", default="5ms,10ms,20ms")
    words.add_argument("--collectives", default=",".join(ops()))
    words.add_argument("--sizes", default="4KiB,64KiB,256KiB,1MiB")
    words.add_argument("--repeats", type=int, default=3)
    given = words.parse_args()
    delays = given.delays.split(",")
    for race in ((given.topology, delay, op) for delay in delays for op in given.collectives.split(",")):
        if not any((row.topology, row.delay, row.op) == race for row in read(given.rows)):
            append(given.rows, undisturbed(*race, given.sizes, given.repeats))
    rows = [row for row in read(given.rows) if row.topology == given.topology and row.delay in delays]
    races(rows)
    worst_frac = summary(rows, delays)
    for delay in delays:
        table(rows, delay)
    return 0 if worst_frac <= BAR_FRAC and not any(row.lap.wrong for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
