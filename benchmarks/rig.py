"""How far predictions are from measurements on shaped links, as a table, and whether they keep their bars.

    python benchmarks/rig.py [SETTING ...] [--repeats 5]        settings: see SETTINGS; all without one; needs root

A setting takes one to two minutes. For each it prints one row per algorithm: the signed error of the prediction at
every size, then the median of the absolute errors beside its bar; then where algorithms tie, predicted and measured.
Overheads and rates are fitted on sends and receives of the same run; the collectives are predicted before they run.
Ends with 1 when a median is beyond its bar. The times themselves belong to the chosen links, not to the machine.
Every program of every collective: benchmarks/rig_programs.py.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping
from datetime import date
from typing import Any

import lockstep
from lockstep.base.units import format_size, format_time
from lockstep.run.rig import Crossing, Race

SIZES = "4KiB,64KiB,256KiB,1MiB"
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "flat-5ms": {"topology": "flat", "delay": "5ms"},
    "flat-20ms": {"topology": "flat", "delay": "20ms"},
    "star-5ms": {"topology": "star", "delay": "5ms"},
    "star-20ms": {"topology": "star", "delay": "20ms"},
    "uplinks-5ms": {"topology": "uplinks", "delay": "5ms", "rate": "50Mbit/s"},
    "incast": {
        "op": "all-to-all",
        "topology": "star",
        "algorithm": "same-first,next-first",
        "size": "64KiB,256KiB,1MiB,4MiB",
    },
    "star-5ms-8": {"topology": "star", "delay": "5ms", "ranks": 8, "size": "4KiB,64KiB,256KiB"},
}
BARS = {
    "ring": 0.05, "rabenseifner": 0.05, "tree": 0.10, "hierarchical": 0.10, "parameter-server": 0.10,
}  # fmt: skip
"""Largest median of the absolute error, by algorithm; the others are shown without one."""


def rows(found: Race) -> list[tuple[str, list[float], float, float | None]]:
    """(algorithm, signed error at each size, median of the absolute errors, bar)."""
    names = dict.fromkeys(lap.algorithm for lap in found.laps)
    errors = {name: [lap.error_frac for lap in found.laps if lap.algorithm == name] for name in names}
    return [(name, known, statistics.median(map(abs, known)), BARS.get(name)) for name, known in errors.items()]


def show(name: str, found: Race) -> bool:
    """Prints one setting as Markdown; whether all bars are kept."""
    sizes_B = sorted({lap.size_B for lap in found.laps})
    known, machine = found.calibration, found.machine
    print(f"\n### {name}, {date.today():%d %b %Y}\n")
    print(
        f"Fitted: alpha {format_time(known.latency_s)}, rate {known.rate_frac:.3f} of the one asked for, trials within "
        f"{100 * known.worst_frac:.1f} %. {machine.processor}, {machine.cores} cores, others used "
        f"{machine.foreign_cores or 0.0:.1f}; TCP {machine.congestion_control}, ranks {machine.scheduling}, emulator "
        f"{found.emulator_scheduling}, packets {format_time(found.counts.mean_late_s)} late on average.\n"
    )
    print(f"| algorithm | {' | '.join(format_size(size_B) for size_B in sizes_B)} | median | bar |")
    print("|---|" + "---:|" * (len(sizes_B) + 2))
    kept = True
    for algorithm, errors, median, bar in rows(found):
        cells = " | ".join(f"{100 * error:+.1f} %" for error in errors)
        print(f"| {algorithm} | {cells} | {100 * median:.1f} % | {'' if bar is None else f'{100 * bar:.0f} %'} |")
        kept &= bar is None or median <= bar
    ties = [one for one in found.crossings if {one.first, one.second} <= set(BARS)]
    print("".join(f"\n- {tie(one)}" for one in ties))
    return kept and found.ok


def tie(one: Crossing) -> str:
    """Where two algorithms tie."""
    sizes = (one.predicted_B, one.measured_B)
    predicted, measured = ("nowhere" if size_B is None else format_size(size_B) for size_B in sizes)
    return f"{one.first} and {one.second} tie at {predicted} predicted, {measured} measured"


def main() -> int:
    """Runs the settings asked for."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("settings", nargs="*", choices=[*SETTINGS, []], default=[])
    words.add_argument("--repeats", type=int, default=5)
    given = words.parse_args()
    kept = True
    for name in given.settings or SETTINGS:
        kept &= show(name, lockstep.rig(**{"size": SIZES, "repeats": given.repeats} | dict(SETTINGS[name])))
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
