"""Runs a sweep: the grid, the engine, the summary. Outcomes are added up as soon as a block of seeds is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import add

from lockstep.base.engines import Asking, Engine, Questions, SweepFile, silent
from lockstep.base.errors import BadInput, RunFailed
from lockstep.base.records import dataclass, field
from lockstep.base.types.plain import Json
from lockstep.base.types.progress import Progress
from lockstep.learn.lab.experiment import find_experiment
from lockstep.learn.lab.sweep.summary import Block, Point, Sweep
from lockstep.learn.lab.sweep.trial import Outcome, Trial, Trials, read_grid, run_trial

MOST_S = 3600.0
"""Default limit on the forecast."""
BLOCK = 1000
"""Seeds of a point that are added up together."""


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
    """The points with any outcome, in the order of the grid; what differs between seeds is dropped block by block."""
    points: dict[int, Seeds] = {}
    refused: dict[int, BadInput] = {}
    for place, answer in asking:
        at, one = divmod(place, trials.seeds)
        if "refused" in answer:
            refused[place] = BadInput(f"{answer['refused']} (in the run {trials[place]})", answer["where"])
            continue
        points.setdefault(at, Seeds(trials.seeds)).add(one, Outcome.of(answer))
    if refused:
        raise refused[min(refused)]
    return tuple(points[at].block().point(swept[at]) for at in sorted(points))


@dataclass(slots=True)
class Seeds:
    """The outcomes of one point, each block of seeds added up when it is there, in the order of the seeds."""

    seeds: int
    _waiting: dict[int, dict[int, Outcome]] = field(default_factory=dict)
    """Outcomes of blocks that are not complete, by seed."""
    _ahead: dict[int, Block] = field(default_factory=dict)
    """Blocks that are, while one before them is not."""
    _sum: Block | None = None
    _next: int = 0

    def add(self, seed: int, outcome: Outcome) -> None:
        """One more outcome."""
        number = seed // BLOCK
        here = self._waiting.setdefault(number, {})
        here[seed] = outcome
        if len(here) < min(BLOCK, self.seeds - number * BLOCK):
            return
        self._ahead[number] = _block(self._waiting.pop(number))
        while self._next in self._ahead:
            found = self._ahead.pop(self._next)
            self._sum = found if self._sum is None else self._sum + found
            self._next += 1

    def block(self) -> Block:
        """All that there are."""
        left = self._ahead | {number: _block(here) for number, here in self._waiting.items()}
        ordered = [left[number] for number in sorted(left)]
        return reduce(add, ordered if self._sum is None else [self._sum, *ordered])


def _block(outcomes: Mapping[int, Outcome]) -> Block:
    """The block of these outcomes by seed."""
    return Block.of([outcomes[seed] for seed in sorted(outcomes)])
