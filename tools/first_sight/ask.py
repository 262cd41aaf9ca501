"""`python tools/first_sight/ask.py lucie`: an entry of the ledger of first sights, as the code of today answers.

A table is asked once, before anything is changed for it, and what this prints goes to the end of
`check/validation/first_sight.toml`, with the commit that was asked; entries are never changed. LOCKSTEP_DATA names the
folder of the published tables. A step is asked as a user would: with the constants that everyone has, and the interval
that every answer carries.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from datetime import date
from importlib import import_module
from types import ModuleType

import numpy as np

from lockstep.check.validation import Case
from lockstep.check.validation.regret import regret
from lockstep.decide.planner.interval import ends_of, spread_on
from lockstep.price.layout import memory

READERS = ("lucie", "mlperf", "deepseek")


def answer(case: Case) -> tuple[float, bool, bool]:
    """Signed error of the step, whether the measured one lies in the interval, and whether the layout fits."""
    grid = case.layout.grid()
    ends = ends_of(case.job, case.cluster, grid)
    found = ends.interval(spread_on(case.cluster.device))
    covered = found.low <= case.measured <= found.high
    fits = bool(memory(case.job, case.cluster, grid).fits)
    return float(ends.step_time_s) / case.measured - 1.0, covered, fits


def figures(answers: Sequence[tuple[float, bool, bool]]) -> dict[str, float]:
    """What the ledger keeps of some rows."""
    fracs, covered, fits = (np.array(column) for column in zip(*answers, strict=True))
    return {
        "rows": len(fracs),
        "median_abs_frac": float(np.median(np.abs(fracs))),
        "median_signed_frac": float(np.median(fracs)),
        "mean_signed_frac": float(np.mean(fracs)),
        "coverage_frac": float(np.mean(covered)),
        "fits_frac": float(np.mean(fits)),
    }


def choices(cases: Sequence[Case], answers: Sequence[tuple[float, bool, bool]]) -> dict[str, float]:
    """What taking the layout predicted fastest costs over the fastest measured, where a job has several."""
    found = regret(cases, [case.measured * (1 + one[0]) for case, one in zip(cases, answers, strict=True)])
    return {} if found is None else {"choice_frac": found.mean_frac}


def entry(reader: ModuleType) -> str:
    """The entry of a reader's table as TOML."""
    cases = reader.cases()
    answers = [answer(case) for case in cases]
    groups = [reader.group(case) for case in cases]
    return ledger_entry(reader.FILE.removesuffix(".csv"), answers, groups, choices(cases, answers))


def ledger_entry(
    table: str, answers: Sequence[tuple[float, bool, bool]], names: Sequence[str], more: dict[str, float]
) -> str:
    """An entry as TOML, its groups in the order of their first rows; `more` figures of the whole table."""
    groups: dict[str, list[tuple[float, bool, bool]]] = {}
    for name, one in zip(names, answers, strict=True):
        groups.setdefault(name, []).append(one)
    lines = ["[[entries]]", f'table = "{table}"', f'date = "{date.today()}"']
    lines += [f'commit = "{_commit()}"', *_toml(figures(answers) | more)]
    for name, some in groups.items():
        lines += ["[[entries.groups]]", f'name = "{name}"', *_toml(figures(some))]
    return "\n".join(lines)


def _toml(found: dict[str, float]) -> list[str]:
    """Lines of TOML, shares to a hundredth of a percent."""
    return [f"{name} = {round(number, 4)}" for name, number in found.items()]


def _commit() -> str:
    said = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    return said.stdout.strip()[:8]


def main() -> None:
    """Prints an entry."""
    parser = argparse.ArgumentParser()
    parser.add_argument("reader", choices=READERS)
    print(entry(import_module(parser.parse_args().reader)))


if __name__ == "__main__":
    main()
