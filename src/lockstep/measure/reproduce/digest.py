"""Digests of every tensor of a run after every step, and the first place where two runs part."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lockstep.measure.train.method import find_method
from lockstep.measure.train.task import Task
from lockstep.measure.train.worker import Worker
from lockstep.rows.plain import picked
from lockstep.settings import read_settings

if TYPE_CHECKING:
    from lockstep.measure.launch import Rank

Array = npt.NDArray[Any]
DIGEST_B = 8


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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return picked(self, "step rank tensor")


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
