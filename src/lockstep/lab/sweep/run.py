"""Runs a sweep: the grid, the engine, the summary. A point is joined as soon as all of its seeds are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lockstep.engines import Asking, Engine, Progress, Questions, SweepFile, silent
from lockstep.errors import BadInput, RunFailed
from lockstep.lab.experiment import find_experiment
from lockstep.lab.sweep.summary import Point, Sweep, joined
from lockstep.lab.sweep.trial import Outcome, Trial, Trials, read_grid, run_trial
from lockstep.types.plain import Json

MOST_S = 3600.0
"""Default limit on the forecast."""


def sweep(
    experiment: str,
    fixed: Mapping[str, object],
    swept: Mapping[str, object],
    engine: Engine,
    *,
    seeds: int = 1,
    seed: int = 0,
    file: SweepFile | None = None,
    progress: Progress = silent,
    most_s: float = MOST_S,
) -> Sweep:
    """Every combination of the swept values with the seeds `seed`, `seed + 1`, ... `seed + seeds - 1`.

    So every run can be made again alone, with `--seed`. Runs that are in `file` are not made again. Ctrl-C ends it
    early with the runs that are done. Raises `BadInput` before anything runs or when the first runs forecast more than
    `most_s` for all, and `RunFailed` when no run came to its end.
    """
    found = find_experiment(experiment)
    grid = read_grid(found, fixed, swept, seeds)
    trials = Trials(found.name, tuple(pairs for _, pairs in grid), seeds, seed)
    asking = Asking(
        Questions(run_trial, trials, {"experiment": found.name}, content=_content), engine, file, progress, most_s
    )
    points = _points(asking, [pairs for pairs, _ in grid], trials)
    if not points:
        raise RunFailed("; ".join(f"{one.name} {one.why}" for one in asking.left_out) or "no run came to its end")
    left_out = tuple((one.name, one.why) for one in asking.left_out)
    return Sweep(
        found.name, found.question, found.source, tuple(fixed.items()), seed, points, len(trials), left_out,
        asking.stopped,
    )  # fmt: skip


def _content(trial: Trial) -> Json:
    return {"settings": dict(trial.settings), "seed": trial.seed}


def _points(
    asking: Iterable[tuple[int, Json]], swept: Sequence[tuple[tuple[str, object], ...]], trials: Trials
) -> tuple[Point, ...]:
    """The points with any outcome, in the order of the grid; outcomes of a point are dropped when it is joined."""
    waiting: dict[int, dict[int, Outcome]] = {}
    points: dict[int, Point] = {}
    refused: dict[int, BadInput] = {}
    for place, answer in asking:
        at, one = divmod(place, trials.seeds)
        if "refused" in answer:
            refused[place] = BadInput(f"{answer['refused']} (in the run {trials[place]})", answer["where"])
            continue
        here = waiting.setdefault(at, {})
        here[one] = Outcome.of(answer)
        if len(here) == trials.seeds:
            points[at] = joined(swept[at], [here[one] for one in sorted(here)])
            del waiting[at]
    if refused:
        raise refused[min(refused)]
    for at, here in waiting.items():
        points[at] = joined(swept[at], [here[one] for one in sorted(here)])
    return tuple(points[at] for at in sorted(points))
