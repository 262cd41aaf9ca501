"""Runs a sweep: the grid, the engine, the summary."""

from __future__ import annotations

from collections.abc import Mapping

from lockstep.errors import BadInput
from lockstep.lab.experiment import Progress, silent
from lockstep.lab.registry import find_experiment
from lockstep.lab.sweep.engines import Engine, gather
from lockstep.lab.sweep.forecast import MOST_S, limited
from lockstep.lab.sweep.grid import read_grid
from lockstep.lab.sweep.summary import Sweep, joined
from lockstep.lab.sweep.trial import Outcome, Refusal, Trial, run_trial


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
