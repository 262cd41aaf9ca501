"""Every experiment of the lab with new seeds: do law and simulation differ as often as the stated errors allow?

    python benchmarks/reseeded.py [NAME ...] [--seeds 30] [--first 1000] [--engine processes] [--store FILE]

`failed` counts runs whose verdict is no; `z` counts the comparisons of a simulated value with its law that have a
standard error and no other tolerance, and of these the ones further than 2, 3 and 4 errors, with what a normal law
expects in brackets; of an error that is itself estimated from few runs they are the numbers of Student's law that have
the same chances, as in the checks themselves. `bias` is the largest mean of one comparison over the seeds, in its own
errors: what no single run can see. Experiments take turns, so that after Ctrl-C all of them have about as many seeds.
Exit code 1: a run failed.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from lockstep.base.engines import Asking, Questions, SweepFile, find_engine
from lockstep.learn.lab import EXPERIMENTS, Check
from lockstep.learn.lab.findings import credible_errors
from lockstep.learn.lab.sweep import Outcome, Trial, run_trial
from lockstep.show.views.parts.progress import progress

TAILS = {count: math.erfc(count / math.sqrt(2)) for count in (2, 3, 4)}
"""Chance of a normal number beyond so many deviations."""
Deviations = dict[str, list[tuple[float, int]]]
"""By comparison: standard errors from the law, and runs that the error is estimated from (0: it is known)."""
SMALL = 0.05
"""Tolerance, over the standard error, up to which only the error counts."""


def deviation(check: Check) -> float | None:
    """Standard errors from the law, where these alone decide."""
    plain = check.relation == "equals" and not check.false_law and check.tolerance <= SMALL * check.standard_error
    return (check.got - check.expected) / check.standard_error if plain and check.standard_error else None


def beyond(count: int, deviations: Deviations) -> int:
    """How many are further from their law than so many errors."""
    flat = [one for several in deviations.values() for one in several]
    return sum(abs(value) > credible_errors(runs, count) for value, runs in flat)


def line(name: str, failed: int, runs: int, deviations: Deviations) -> str:
    """One row of the table."""
    flat = [one for several in deviations.values() for one in several]
    tails = "".join(f"{beyond(count, deviations):>6} ({len(flat) * chance:6.1f})" for count, chance in TAILS.items())
    means = [sum(value for value, _ in several) / math.sqrt(len(several)) for several in deviations.values()]
    bias = max(map(abs, means), default=0.0)
    return f"{name:<24}{runs:>5}{failed:>8}{len(flat):>8}{tails}{bias:>7.1f}"


def outcomes(trials: Sequence[Trial], engine: str, store: Path | None) -> Mapping[int, Outcome]:
    """What became of every trial, by its place."""
    content = Questions(run_trial, trials, {"reseeded": 1}, content=lambda one: [one.experiment, one.seed])
    with ExitStack() as open_files:
        file = None if store is None else open_files.enter_context(SweepFile(store))
        asking = Asking(content, find_engine(engine), file, open_files.enter_context(progress("reseeded")))
        found = {place: Outcome.of(answer) for place, answer in asking}
    for one in asking.left_out:
        print(f"left out: {one.name} {one.why}")
    return found


def main() -> int:
    """Prints a row per experiment and the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=EXPERIMENTS, metavar="NAME")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--engine", default="serial")
    parser.add_argument("--store", type=Path)
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    trials = [Trial(name, (), seed) for seed in seeds for name in given.names]
    found = outcomes(trials, given.engine, given.store)
    print(f"{'':<24}{'runs':>5}{'failed':>8}{'z':>8}{'> 2':>15}{'> 3':>15}{'> 4':>15}{'bias':>7}")
    total, runs, lost = defaultdict(list), 0, 0
    for number, name in enumerate(given.names):
        here = [found[place] for place in range(number, len(trials), len(given.names)) if place in found]
        deviations: Deviations = defaultdict(list)
        for check in (check for one in here for check in one.checks):
            value = deviation(check)
            if value is not None:
                deviations[check.what].append((value, check.runs))
        failed = sum(not one.agrees for one in here)
        print(line(name, failed, len(here), deviations), flush=True)
        total |= {f"{name}: {what}": values for what, values in deviations.items()}
        runs, lost = runs + len(here), lost + failed
    print(line("all", lost, runs, total))
    covered = 1 - beyond(2, total) / max(1, sum(map(len, total.values())))
    print(
        f"an interval of two stated errors covered the law in {covered:.1%} of cases, a normal law {1 - TAILS[2]:.1%}"
    )
    return int(lost > 0)


if __name__ == "__main__":
    raise SystemExit(main())
