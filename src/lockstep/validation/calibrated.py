"""`python -m lockstep.validation.calibrated`: larger sizes of a program after a calibration on 8 and 16 devices.

Of every table with steps of both kinds, by device and release: nothing is fitted to the program (`unseen.py`), at most
MOST steps on up to 16 devices calibrate the cluster, and its larger steps are asked before and after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lockstep.planner.interval import ends_of, spread_on
from lockstep.types.arrays import Floats
from lockstep.validation.calibration import Measured, calibrate
from lockstep.validation.case import Case, read_rows
from lockstep.validation.report import TABLES
from lockstep.validation.unseen import unseen

SMALL = 16
MOST = 12
ASKED = ("dgxc_nemo", "dgxc_nemo_experts", "internlm_7b", "nanotron_ultrascale", "nvidia_nemo", "vocab_parallelism")


@dataclass(frozen=True, slots=True)
class Followed:
    """The larger steps of one program on one device."""

    name: str
    calibrated_with: int
    pace: float
    before: Floats
    """Signed errors."""
    after: Floats
    covered: Floats
    """Whether they lie in the interval of the calibrated cluster, 1 or 0."""

    def row(self) -> str:
        """A row of a Markdown table."""
        before, after = (f"{100 * float(np.median(np.abs(errors))):.1f} %" for errors in (self.before, self.after))
        inside = f"{100 * float(np.mean(self.covered)):.0f} %"
        cells = [self.name, str(self.calibrated_with), str(len(self.after)), f"{self.pace:.2f}", before, after, inside]
        return "| " + " | ".join(cells) + " |"


def followed() -> Iterator[Followed]:
    """Every program, device and release with steps of both kinds."""
    for table in ASKED:
        groups: dict[str, list[Case]] = {}
        for case in TABLES[table].cases():
            if not case.layout.stages:
                groups.setdefault(_name(table, case), []).append(unseen(case))
        for name, cases in sorted(groups.items()):
            small = [case for case in cases if case.job.devices <= SMALL]
            large = [case for case in cases if case.job.devices > SMALL]
            if small and large:
                yield _followed(name, small[:: -(-len(small) // MOST)], large)


def _name(table: str, case: Case) -> str:
    releases = {row["row_id"]: row["release"] for row in read_rows("dgxc_benchmarking.csv")}
    release = releases.get(case.row.split()[0], "") if table.startswith("dgxc") else ""
    return " ".join(part for part in (table, release, case.cluster.device.name) if part)


def _followed(name: str, small: Sequence[Case], large: Sequence[Case]) -> Followed:
    base = max((case.cluster for case in (*small, *large)), key=lambda one: one.num_devices)
    found = calibrate(base, [Measured(one.row, one.job, one.layout, one.measured) for one in small])
    known = found.cluster
    device = known.device.paced(found.pace, found.error_frac, name, "2026-11-23")
    before, after, covered = [], [], []
    for one in large:
        grid, here = one.layout.grid(), known.resized(one.job.devices)
        plain = ends_of(one.job, one.cluster, grid)
        ends = ends_of(one.job, replace(here, device=device), grid)
        between = ends.interval(spread_on(device))
        before.append(float(plain.step_time_s) / one.measured - 1)
        after.append(float(ends.step_time_s) / one.measured - 1)
        covered.append(float(between.low <= one.measured <= between.high))
    return Followed(name, len(small), found.pace, np.array(before), np.array(after), np.array(covered))


def main() -> None:
    """Prints the table of `docs/use/measure.md`."""
    print("| table | calibrated with | larger rows | pace | median error before | after | inside the interval |")
    print("|---|---|---|---|---|---|---|")
    every = list(followed())
    for one in every:
        print(one.row())
    for words, errors in (
        ("before", [e for one in every for e in one.before]),
        ("after", [e for one in every for e in one.after]),
    ):
        print(f"<!-- all {words}: {100 * float(np.median(np.abs(errors))):.1f} % -->")


if __name__ == "__main__":
    main()
