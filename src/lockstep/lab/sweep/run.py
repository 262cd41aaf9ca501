"""Runs a sweep: the grid, the engine, the summary; and a limit on how long it will take, measured on its first runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from lockstep.errors import BadInput
from lockstep.lab.experiment import Progress, find_experiment, silent
from lockstep.lab.sweep.engines import Engine, gather
from lockstep.lab.sweep.summary import Sweep, joined
from lockstep.lab.sweep.trial import Outcome, Refusal, Trial, read_grid, run_trial
from lockstep.units import format_time

MOST_S = 3600.0
"""Default limit on the forecast."""
MEASURED_RUNS, MEASURED_S = 3, 2.0
"""The forecast is made that many runs and seconds after the first run, whichever is later."""


def limited(progress: Progress, most_s: float, clock: Callable[[], float] = time.monotonic) -> Progress:
    """`progress` that also forecasts the whole, once. Raises `BadInput` when that is above `most_s`.

    Time counts from the end of the first run, so that the start of processes is not taken for work.
    """
    first: list[tuple[int, float]] = []
    measured = False

    def report(done: int, total: int) -> None:
        nonlocal measured
        first.append((done, clock()))
        del first[1:]
        runs, took_s = done - first[0][0], clock() - first[0][1]
        if not measured and runs >= MEASURED_RUNS and took_s >= MEASURED_S:
            measured = True
            _check(took_s / runs, runs, total, most_s)
        progress(done, total)

    return report


def _check(run_s: float, measured: int, total: int, most_s: float) -> None:
    if run_s * total > most_s:
        raise BadInput(
            f"{total:,} runs would take about {format_time(run_s * total)}, at {format_time(run_s)} each in the first "
            f"{measured:,}; the limit is {format_time(most_s)}: use fewer values or seeds, --engine processes, or a "
            "longer limit",
            "--limit",
        )


def sweep(
    experiment: str,
    fixed: Mapping[str, object],
    swept: Mapping[str, object],
    engine: Engine,
    *,
    seeds: int = 1,
    seed: int = 0,
    progress: Progress = silent,
    most_s: float = MOST_S,
) -> Sweep:
    """Every combination of the swept values with the seeds `seed`, `seed + 1`, ... `seed + seeds - 1`.

    So every run can be made again alone, with `--seed`. Ctrl-C ends it early with the runs that are done. Raises
    `BadInput` before anything runs or when the first runs forecast more than `most_s` for all, and `RunFailed` when a
    run keeps killing the process that makes it.
    """
    found = find_experiment(experiment)
    grid = read_grid(found, fixed, swept, seeds)
    trials = [Trial(found.name, pairs, seed + one) for _, pairs in grid for one in range(seeds)]
    results: dict[int, Outcome | Refusal] = {}
    try:
        gather(engine.stream(run_trial, trials), results, len(trials), limited(progress, most_s))
    except KeyboardInterrupt:
        if not results:
            raise
    outcomes = {place: _accepted(results[place], trials[place]) for place in sorted(results)}
    points = []
    for place, (pairs, _) in enumerate(grid):
        here = [outcomes[one] for one in range(place * seeds, (place + 1) * seeds) if one in outcomes]
        points += [joined(pairs, here)] if here else []
    return Sweep(found.name, found.question, found.source, tuple(fixed.items()), seed, tuple(points), asked=len(trials))


def _accepted(outcome: Outcome | Refusal, trial: Trial) -> Outcome:
    """The outcome, or `BadInput` with the run that refused its settings; the first in the order of the grid."""
    if isinstance(outcome, Refusal):
        raise BadInput(f"{outcome.message} (in the run {trial})", outcome.where)
    return outcome
