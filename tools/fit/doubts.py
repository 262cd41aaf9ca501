"""`python tools/fit/doubts.py`: what adds to the interval where an answer rests on less than steps of its kind.

Errors are ln(measured / predicted), nothing fitted to the program, and of a source, which is a table of steps on one
device, the median counts. With b a base end of the interval (`interval.toml`), z = 1.645, s the root mean square of
errors of sources and m their mean,

    few, kernels, borrowed, foreign      z s, both ends
    experts, fp4                         D_high = sqrt((m + sqrt((z s_m)^2 + b^2))^2 - b^2), D_low with -m

where s_m is about the mean: models of experts came out longer than predicted in nearly every source.

    few        sources on devices with steps of one or two programs, dense models
    kernels    sources on devices of which kernels alone were measured
    borrowed   sources on devices with steps of their own, priced by the curve of another device of the maker
    foreign    the same with the curve of a device of another maker

`scale` is not fitted: it is what DeepSeek-V3 on 256 to 8,192 devices, the one series beyond RANKS devices with its
errors growing, needs beside `experts`.

Reads tables asked at first sight from the folder that LOCKSTEP_DATA names (`tools/first_sight`).
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from lockstep.check.validation.case import Case
from lockstep.check.validation.coverage import observed
from lockstep.check.validation.report import TABLES
from lockstep.decide.planner.doubts import footing
from lockstep.decide.planner.interval import known_spread
from lockstep.describe.hardware import Device, devices, efficiency

Z = 1.645
AT_FIRST_SIGHT = ("mlperf", "deepseek")
STANDARD = ("a100", "h100", "b200", "mi300x")
"""Curves that stand in for others."""
SAMPLE = 12
"""Rows of a source that are priced by other curves."""


def sources() -> Iterator[tuple[str, Case]]:
    """Every published step with the name of its table."""
    for name, table in TABLES.items():
        if table.quantity == "step_time_s":
            yield from ((name, case) for case in table.cases())
    sys.path.insert(0, str(Path(__file__).parents[1] / "first_sight"))
    for name in AT_FIRST_SIGHT:
        yield from ((name, case) for case in __import__(name).cases() if not _unnamed_format(case))


def _unnamed_format(case: Case) -> bool:
    """Rows of MLPerf on one node, of which it is not said whether their products are fp8 or fp4."""
    return case.job.devices == 8 and case.cluster.device.name in ("b200", "b300") and case.job.recipe.dtype == "fp8"


def medians(rows: Iterable[tuple[str, Case]]) -> dict[tuple[str, str], float]:
    """Median error of each source."""
    found = defaultdict(list)
    for name, case in rows:
        found[name, case.cluster.device.name].append(observed(case).log_error)
    return {source: float(np.median(errors)) for source, errors in found.items()}


def rms(errors: Sequence[float]) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(errors))))


def on_devices(found: Mapping[tuple[str, str], float], wanted: str) -> list[float]:
    """Errors of sources on devices of which as much is known."""
    known = {one.name for one in devices() if footing(one) == wanted}
    return [error for (_, name), error in found.items() if name in known]


def stood_in(rows: Sequence[tuple[str, Case]], same_maker: bool) -> list[float]:
    """Median over sources of each device and each curve that stands in for its own."""
    several: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for name, case in rows:
        several[name, case.cluster.device.name].append(case)
    found = defaultdict(list)
    for (_, name), cases in several.items():
        own = cases[0].cluster.device
        if footing(own) not in ("steps", "few"):
            continue
        for other in STANDARD:
            if other != own.efficiency.name and (_maker(other) == own.vendor) == same_maker:
                every = -(-len(cases) // SAMPLE)
                found[name, other].append(float(np.median([_error(case, other) for case in cases[::every]])))
    return [float(np.median(errors)) for errors in found.values()]


def _maker(curve: str) -> str:
    return next(one.vendor for one in devices() if one.name in efficiency(curve).devices)


def _error(case: Case, curve: str) -> float:
    other: Device = replace(case.cluster.device, efficiency=efficiency(curve))
    priced = replace(case, cluster=replace(case.cluster, device=other))
    return float(np.log(case.measured / priced.predict(priced)))


def about_mean(errors: Sequence[float]) -> tuple[float, float]:
    """(D_low, D_high) of sources whose errors have a sign."""
    spread, mean, width = known_spread(), float(np.mean(errors)), Z * float(np.std(errors, ddof=1))
    bases = spread.below, float(np.log1p(spread.above))
    reached = [
        max(0.0, sign * mean + float(np.hypot(width, base))) for sign, base in zip((-1.0, 1.0), bases, strict=True)
    ]
    low, high = (float(np.sqrt(max(0.0, end**2 - base**2))) for end, base in zip(reached, bases, strict=True))
    return low, high


def main() -> None:
    """Prints the constants."""
    rows = [*sources()]
    dense = [(name, case) for name, case in rows if not case.job.num_experts and "fp4" not in case.job.recipe.dtype]
    found = medians(dense)
    groups = {
        "few": on_devices(found, "few"),
        "kernels": on_devices(found, "kernels"),
        "borrowed": stood_in(dense, same_maker=True),
        "foreign": stood_in(dense, same_maker=False),
    }
    for name, errors in groups.items():
        print(f"[{name}] below = above = {Z * rms(errors):.2g}  # {len(errors)}: {np.round(errors, 2)}")
    for name, some in (
        ("experts", [row for row in rows if row[1].job.num_experts]),
        ("fp4", [row for row in rows if "fp4" in row[1].job.recipe.dtype]),
    ):
        errors = [*medians(some).values()]
        low, high = about_mean(errors)
        print(f"[{name}] below = {low:.2g}, above = {high:.2g}  # {len(errors)}: {np.round(errors, 2)}")


if __name__ == "__main__":
    main()
