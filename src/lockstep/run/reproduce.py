"""The reproducibility checker: the same seeds twice, then with sources of difference switched, together and alone.

Two runs are compared tensor by tensor after every step, by digests. The same seeds must give the same bits. A switched
source that parts them is named with the first step, rank and tensor where they do. When several are switched together,
those that alone part the runs as early have done it. A `Source` is one thing that makes two runs of the same
mathematics differ in bits:

    reduction-order   gradients are added in another order of ranks: the all-reduce by another algorithm
    rank-order        worker k takes the share of worker n - 1 - k
    dtype             64 bits instead of 32
    data-order        another shuffle of the samples
    dropout-seed      other inputs are dropped
The first two change no sum of real numbers, only its rounding: addition of floating-point numbers is not associative.

Source: D. Goldberg, "What every computer scientist should know about floating-point arithmetic", ACM Computing Surveys
23 (1991), section 1.4 (addition is not associative).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass, replace
from lockstep.base.settings import read_settings
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.shown import Shown
from lockstep.run.launch import launch
from lockstep.run.train import Task, find_method
from lockstep.run.train.run import read
from lockstep.run.train.worker import Worker

if TYPE_CHECKING:
    from lockstep.run.launch import Rank


DIGEST_B = 8
Change = Callable[[Task, Mapping[str, object]], "tuple[Task, dict[str, object]]"]
OTHER_ALGORITHM = "recursive-doubling"
AGAIN = "nothing"
"""Name of the trial with the same seeds."""


@dataclass(frozen=True, slots=True, eq=False)
class Digests:
    """One rank's run: the bits of every tensor after every step, as digests, and the weights at the end."""

    steps: tuple[Mapping[str, str], ...]
    weights: Array


@dataclass(frozen=True, slots=True)
class Parting:
    """Where two runs have different bits for the first time."""

    step: int
    """Steps done, from 1."""
    rank: int
    tensor: str

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def first_parting(one: Sequence[Digests], other: Sequence[Digests]) -> Parting | None:
    """The first step, rank and tensor where two runs differ; None for the same bits throughout. Both by rank."""
    for step in range(len(one[0].steps)):
        for rank, (mine, yours) in enumerate(zip(one, other, strict=True)):
            for name, digest in mine.steps[step].items():
                if yours.steps[step][name] != digest:
                    return Parting(step + 1, rank, name)
    return None


def digested(rank: Rank, jobs: Sequence[tuple[str, Task, Mapping[str, object]]]) -> list[Digests]:
    """One rank's digests of several runs, one after another."""
    return [_run(rank, *job) for job in jobs]


def _run(rank: Rank, name: str, task: Task, settings: Mapping[str, object]) -> Digests:
    method = find_method(name)
    worker = Worker(task, rank, helpers=method.helpers, splits_batch=method.splits_batch)
    with closing(worker.wire):
        losses = method.run(worker, read_settings(method.settings, settings))
        steps = tuple(dict(_tensors(worker)) for _ in losses)
    if rank.number == 0:
        rank.tell(task.steps)
    return Digests(steps, worker.flat.weights.numpy().copy())


def _tensors(worker: Worker) -> Iterator[tuple[str, str]]:
    """(name, digest) of all weights, then of everything else that is kept from step to step."""
    names = [name for name, _ in worker.model.named_parameters()]
    for name, (start, stop) in zip(names, worker.flat.ranges, strict=True):
        yield name, _digest(worker.flat.weights[start:stop].numpy())
    for part in worker.parts():
        yield part.name, _digest(part.array)


def _digest(array: Array) -> str:
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=DIGEST_B).hexdigest()


@dataclass(frozen=True, slots=True)
class Source:
    """A name, what it changes in words, and the change."""

    name: str
    summary: str
    change: Change

    def fits(self, method: str) -> bool:
        """Whether the method has it."""
        return self.name != "reduction-order" or "algorithm" in find_method(method).setting_names


def _dtype(task: Task, settings: Mapping[str, object]) -> tuple[Task, dict[str, object]]:
    return replace(task, dtype="float64" if task.dtype == "float32" else "float32"), dict(settings)


SOURCES = {
    source.name: source
    for source in (
        Source(
            "reduction-order",
            f"all-reduce by {OTHER_ALGORITHM}",
            lambda task, settings: (task, {**settings, "algorithm": OTHER_ALGORITHM}),
        ),
        Source(
            "rank-order",
            "shares of the batch dealt from the last rank",
            lambda task, settings: (replace(task, reversed_ranks=True), dict(settings)),
        ),
        Source("dtype", "weights and gradients in the other type", _dtype),
        Source(
            "data-order",
            "another shuffle",
            lambda task, settings: (replace(task, data_seed=task.shuffle_seed + 1), dict(settings)),
        ),
        Source(
            "dropout-seed",
            "other inputs dropped",
            lambda task, settings: (replace(task, dropout_seed=task.dropout_seed + 1), dict(settings)),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Trial:
    """One run against the first: what was switched, where they part, and how far apart the weights end."""

    switched: tuple[str, ...]
    parting: Parting | None
    largest_difference: float
    """Of a weight at the end."""

    @property
    def name(self) -> str:
        """What was switched."""
        return " + ".join(self.switched) or AGAIN

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "switched": list(self.switched),
            "identical": self.parting is None,
            **picked(self, "parting largest_difference"),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Reproduction(Shown):
    """What came of all trials: the same again, sources together (if several were asked for), each alone."""

    method: str
    task: Task
    ranks: int
    again: Trial
    together: Trial | None
    alone: tuple[Trial, ...]

    @property
    def reproducible(self) -> bool:
        """Whether the same seeds gave the same bits."""
        return self.again.parting is None

    @property
    def culprits(self) -> tuple[str, ...]:
        """Sources that part the runs alone; of several together, those that do so as early as all of them."""
        parted = [trial for trial in self.alone if trial.parting is not None]
        if self.together is not None and self.together.parting is not None:
            step = self.together.parting.step
            parted = [trial for trial in parted if trial.parting is not None and trial.parting.step <= step]
        return tuple(trial.name for trial in parted)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            **picked(self, "method ranks"),
            "steps": self.task.steps,
            **picked(self, "reproducible again together"),
            "rows": plain(self.alone),
            "culprits": plain(self.culprits),
        }


def reproduce(
    method: str,
    task: Task,
    ranks: int,
    settings: Mapping[str, object] | None = None,
    *,
    switch: Sequence[str] = (),
    timeout_s: float = 60.0,
    progress: Callable[[int, int], None] | None = None,
) -> Reproduction:
    """Runs everything on one set of ranks. `switch`: names of SOURCES to switch together and alone; all alone if empty.

    `progress(runs done, runs)`. Raises BadInput, UnknownName, RunFailed.
    """
    given = dict(settings or {})
    chosen = [_source(name, method) for name in switch or [one.name for one in SOURCES.values() if one.fits(method)]]
    trials = [(), *([tuple(chosen)] if len(switch) > 1 else []), *((source,) for source in chosen)]
    jobs = [(method, task, given)]
    for sources in trials:
        changed, own = task, given
        for source in sources:
            changed, own = source.change(changed, own)
        jobs.append((method, changed, own))
    for job in jobs:
        read(job[0], job[1], ranks, job[2])
    done = 0

    def hear(rank: int, steps: int) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, len(jobs))

    by_rank: list[list[Digests]] = launch(digested, ranks, (jobs,), timeout_s=timeout_s, on_message=hear)
    runs = [[rank[place] for rank in by_rank] for place in range(len(jobs))]
    found = [_trial(sources, runs[0], run) for sources, run in zip(trials, runs[1:], strict=True)]
    together = found[1] if len(switch) > 1 else None
    return Reproduction(method, task, ranks, found[0], together, tuple(found[2 if together else 1 :]))


def _source(name: str, method: str) -> Source:
    """The source of that name, if the method has it."""
    if name not in SOURCES:
        raise UnknownName("source of difference", name, SOURCES, "--switch")
    if not SOURCES[name].fits(method):
        raise BadInput(f"{method} has no choice of all-reduce; {name} needs synchronous", "--switch")
    return SOURCES[name]


def _trial(sources: Sequence[Source], first: Sequence[Digests], run: Sequence[Digests]) -> Trial:
    apart = np.abs(first[0].weights.astype(np.float64) - run[0].weights.astype(np.float64)).max()
    return Trial(tuple(source.name for source in sources), first_parting(first, run), float(apart))
