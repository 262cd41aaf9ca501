"""`python tools/fit/pairs.py`: how far predicted ratios of two steps are off, from published steps.

Of every two published steps of one model by the same software on the same device, predicted with nothing fitted to that
software (`check/validation/without_program.py`), y = |ln(measured ratio) - ln(predicted ratio)|. The constants of
`decide/planner/comparison.py` are the quantile of all pairs by regression (`spread.py`):

    y = shared + shared_per_shift x        no coefficient below 0; x as there; every program weighs the same
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from lockstep.base.types.arrays import Floats
from lockstep.check.validation.case import Case
from lockstep.check.validation.coverage import observed
from lockstep.check.validation.report import TABLES
from lockstep.check.validation.without_program import without_program
from lockstep.decide.planner.comparison import known_shared, shift_frac
from lockstep.describe.workload import Model
from lockstep.price.step import price_step
from spread import plane, weights

DIGITS = 3
MOST = 200
"""Pairs of one model, software and device that are looked at, evenly spread over all of them."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two published steps of one model by one software on one device."""

    software: str
    error: float
    """|ln(measured ratio / predicted ratio)|."""
    shift_frac: float


def pairs(cases: Sequence[Case]) -> Iterator[Pair]:
    """Pairs of steps with different jobs or layouts, at most MOST of each model, software and device."""
    machines: dict[tuple[str, str, Model], list[Case]] = defaultdict(list)
    for case in cases:
        machines[case.job.recipe.software.name, case.cluster.device.name, case.job.model].append(case)
    for (software, *_), ours in machines.items():
        seen = [(case, observed(case).log_error, _parts_s(case)) for case in ours]
        both = [two for two in combinations(seen, 2) if _differ(two[0][0], two[1][0])]
        for one, other in both[:: -(-len(both) // MOST)] if both else ():
            yield Pair(software, abs(one[1] - other[1]), shift_frac(one[2], other[2]))


def _differ(one: Case, other: Case) -> bool:
    return (one.job, one.layout) != (other.job, other.layout)


def _parts_s(case: Case) -> dict[str, float]:
    blind = without_program(case)
    return price_step(blind.job, blind.cluster, blind.layout.grid()).breakdown_s()


def fitted(found: Sequence[Pair], level_frac: float) -> Floats:
    """(shared, shared_per_shift)."""
    columns = np.array([[1.0, pair.shift_frac] for pair in found])
    errors = np.array([pair.error for pair in found])
    return plane(columns, errors, weights([pair.software for pair in found]), level_frac)


def left_out(found: Sequence[Pair], level_frac: float) -> float:
    """Share of pairs inside, by constants that know no pair of their software; every software weighs the same."""
    shares = []
    for software in dict.fromkeys(pair.software for pair in found):
        own = [pair for pair in found if pair.software == software]
        shared, per_shift = fitted([pair for pair in found if pair.software != software], level_frac)
        shares.append(np.mean([pair.error <= shared + per_shift * pair.shift_frac for pair in own]))
    return float(np.mean(shares))


def main() -> None:
    """Prints the constants, and the share of pairs that they cover of software that was left out."""
    argparse.ArgumentParser().parse_args()
    timed = [table for table in TABLES.values() if table.quantity == "step_time_s"]
    found = list(pairs([case for table in timed for case in table.cases()]))
    level_frac = known_shared().level_frac
    for name, value in zip(("shared", "shared_per_shift"), fitted(found, level_frac), strict=True):
        print(f"{name} = {value:.{DIGITS}g}")
    programs = len({pair.software for pair in found})
    covered = left_out(found, level_frac)
    print(f"# {len(found):,} pairs of {programs} programs; of a program left out, {covered:.0%} inside")


if __name__ == "__main__":
    main()
