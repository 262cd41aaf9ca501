"""Larger sizes of a program after a calibration on 8 to 16 devices.

Of every table with steps of both kinds, by release and device: nothing is fitted to the program
(`without_program.py`), at most MOST steps on 8 to 16 devices calibrate the cluster, and its larger steps are asked
before and after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Floats
from lockstep.check.validation.calibration import Measured, calibrate
from lockstep.check.validation.case import Case, read_rows
from lockstep.check.validation.report import TABLES
from lockstep.check.validation.vocabulary import repeated
from lockstep.check.validation.without_program import without_program
from lockstep.decide.planner.interval import ends_of, spread_on
from lockstep.describe.hardware.pace import paced

SMALL = range(8, 17)
MOST = 12
RELEASES = {"dgxc_benchmarking.csv": "release", "nvidia_nemo_megatron_bridge.csv": "container"}
"""Columns that say of which release a row is; other tables are of one release."""
HEAD = """
## After a calibration

Nothing fitted to the program; its steps on 8 to 16 devices, at most twelve of a release, calibrate the cluster as
`lockstep calibrate` does (products, attention, elementwise kernels, host and links: `check/validation/calibration.py`).
Steps on more devices are then off by **{after}** in the median, before by {before}; {inside} lie inside the interval of
the calibrated cluster (`check/validation/calibrated.py`). A calibration moves all products alike, and all
attention: what is wrong with one model of a release and right with another stays, and what a larger group of ranks
costs beside links. Small rows of another kind mislead it, as experts of nvidia_nemo, whose smallest rows were tuned
least. Rows of vocab_parallelism that its authors' own repetition makes 9 to 14 % faster are not calibrated with.

| table and release | device | calibrated with | larger rows | products | before | after | inside |
|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Followed:
    """The larger steps of one program on one device."""

    name: str
    device: str
    calibrated_with: int
    pace: float
    before: Floats
    """Signed errors."""
    after: Floats
    covered: Floats
    """Whether they lie in the interval of the calibrated cluster, 1 or 0."""

    def row(self) -> str:
        """A row of a Markdown table."""
        before, after = map(_median, (self.before, self.after))
        numbers = [str(self.calibrated_with), str(len(self.after)), f"{self.pace:.2f}"]
        return "| " + " | ".join([self.name, self.device, *numbers, before, after, _share(self.covered)]) + " |"


@cache
def followed() -> tuple[Followed, ...]:
    """Every program, release and device with steps of both kinds."""
    return tuple(_followed(name, device, small, large) for name, device, small, large in _both())


def _both() -> Iterator[tuple[str, str, list[Case], list[Case]]]:
    """(table and release, device, small steps, larger ones)."""
    releases = {row["row_id"]: row[column] for file, column in RELEASES.items() for row in read_rows(file)}
    for table in TABLES.values():
        groups: dict[tuple[str, str], list[Case]] = {}
        for case in table.cases() if table.quantity == "step_time_s" else ():
            release = releases.get(case.row.split()[0], "").partition(" (")[0].removesuffix(" NeMo Container")
            key = f"{table.name} {release}".strip(), case.cluster.device.name
            groups.setdefault(key, []).append(without_program(case))
        for (name, device), cases in groups.items():
            small = [case for case in cases if case.job.devices in SMALL and repeated(case)]
            large = [case for case in cases if case.job.devices >= SMALL.stop]
            if small and large:
                yield name, device, small, large


def _followed(name: str, device: str, small: Sequence[Case], large: Sequence[Case]) -> Followed:
    base = max((case.cluster for case in (*small, *large)), key=lambda one: one.num_devices)
    few = small[:: -(-len(small) // MOST)]
    found = calibrate(base, [Measured(one.row, one.job, one.layout, one.measured) for one in few])
    known = replace(found.cluster, device=paced(base.device, found.entry(name, "2026-11-26")))
    before, after, covered = [], [], []
    for one in large:
        grid = one.layout.grid()
        plain = one.predict(one)
        ends = ends_of(one.job, known.resized(one.job.devices), grid)
        between = ends.interval(spread_on(known.device))
        before.append(plain / one.measured - 1)
        after.append(float(ends.step_time_s) / one.measured - 1)
        covered.append(float(between.low <= one.measured <= between.high))
    return Followed(name, device, len(few), found.pace, np.array(before), np.array(after), np.array(covered))


def section() -> str:
    """What the validation page says of it."""
    every = followed()
    before, after, covered = (
        np.concatenate([getattr(one, name) for one in every]) for name in ("before", "after", "covered")
    )
    head = HEAD.format(before=_median(before), after=_median(after), inside=_share(covered))
    return head + "".join(f"{one.row()}\n" for one in every)


def _median(errors: Floats) -> str:
    return f"{100 * float(np.median(np.abs(errors))):.1f} %"


def _share(covered: Floats) -> str:
    return f"{100 * float(np.mean(covered)):.0f} %"
