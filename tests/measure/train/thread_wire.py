"""Ranks as threads of one process: a wire over queues, so that a method runs in a moment and a lost message is seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Queue
from threading import Barrier, Lock, local
from typing import Any

import numpy as np
import pytest
import torch

from lockstep.base.settings import read_settings
from lockstep.run.launch import Rank
from lockstep.run.train import Task, find_method
from lockstep.run.train import worker as worker_module
from lockstep.run.train.worker import Worker
from lockstep.simulate.collectives.rounds import cut

PATIENCE_S = 10.0
"""Until a rank that waits for one that never comes has failed."""


class Room:
    """Where the ranks of a run meet."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.barrier = Barrier(ranks, timeout=PATIENCE_S)
        self.told: list[Any] = [None] * ranks
        self.queues: dict[tuple[int, int, int], Queue[Any]] = defaultdict(Queue)


class ThreadWire:
    """What `Wire` promises, by its words; counts the collectives by name instead of bytes."""

    room: Room

    def __init__(self, rank: Rank) -> None:
        self.rank, self.ranks, self.sent_B, self.messages = rank.number, rank.ranks, 0, 0

    def close(self) -> None:
        """Nothing to close."""

    def count(self, tensor: Any) -> None:
        """Nothing to count."""

    def share(self, num_elems: int, rank: int | None = None) -> slice:
        edges = cut(0, num_elems, self.ranks)
        place = self.rank if rank is None else rank
        return slice(int(edges[place]), int(edges[place + 1]))

    def meet(self, told: Any) -> list[Any]:
        """What every rank tells, once all have come."""
        self.room.told[self.rank] = told
        self.room.barrier.wait()
        heard = list(self.room.told)
        self.room.barrier.wait()
        return heard

    def all_reduce(self, tensor: Any, algorithm: str = "ring") -> None:
        tensor.copy_(torch.stack(self.meet(tensor.clone())).sum(0))

    def average(self, tensor: Any, algorithm: str = "ring") -> None:
        self.all_reduce(tensor)
        tensor /= self.ranks

    def reduce_scatter(self, tensor: Any) -> Any:
        self.all_reduce(tensor)
        own = self.share(len(tensor))
        kept = tensor[own].clone()
        tensor.fill_(float("nan"))
        tensor[own] = kept
        return tensor[own]

    def all_gather(self, tensor: Any) -> None:
        for rank, theirs in enumerate(self.meet(tensor.clone())):
            tensor[self.share(len(tensor), rank)] = theirs[self.share(len(tensor), rank)]

    def all_to_all(self, tensor: Any) -> Any:
        return torch.cat([theirs.chunk(self.ranks)[self.rank] for theirs in self.meet(tensor.clone())])

    def send(self, tensor: Any, peer: int, tag: int = 0) -> None:
        self.room.queues[self.rank, peer, tag].put(tensor.clone())

    def receive(self, tensor: Any, peer: int | None = None, tag: int = 0) -> int:
        assert peer is not None
        tensor.copy_(self.room.queues[peer, self.rank, tag].get(timeout=PATIENCE_S))
        return peer

    def exchange(self, given: Any, to: int, taken: Any, origin: int) -> None:
        self.send(given, to)
        self.receive(taken, origin)

    def average_neighbours(self, tensor: Any) -> None:
        every = self.meet(tensor.clone())
        near = {(self.rank + apart) % self.ranks for apart in (-1, 0, 1)}
        tensor.copy_(torch.stack([every[rank] for rank in sorted(near)]).mean(0))

    def gather_uneven(self, tensors: Sequence[Any]) -> list[list[Any]]:
        return self.meet([tensor.clone() for tensor in tensors])


@dataclass(frozen=True)
class Sent:
    """A message under way, which a queue has taken at once."""

    taken: None

    def wait(self) -> None:
        """It is there."""


@dataclass(frozen=True)
class Ran:
    """What a rank ended with."""

    weights: np.ndarray
    losses: list[float | None]
    notes: dict[str, Any] = field(default_factory=dict)
    own_gradients: int = 0
    """Parameters to which a backward pass after the run gives a gradient that nobody takes away."""


def own_gradients(worker: Worker) -> int:
    """Counted on a sum over all parameters of the rank's model."""
    parameters = list(worker.model.parameters())
    for parameter in parameters:
        parameter.grad = None
    torch.stack([parameter.sum() for parameter in parameters]).sum().backward()
    return sum(parameter.grad is not None for parameter in parameters)


def one_model_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights come from numbers that all threads share."""
    lock, new_model = Lock(), Worker.new_model

    def alone(worker: Worker) -> Any:
        with lock:
            return new_model(worker)

    monkeypatch.setattr(Worker, "new_model", alone)


def ran(ranks: int, method: str, task: Task, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[Ran]:
    """Every rank's end of a run of a method, all of them in threads of this process."""
    room, found = Room(ranks), find_method(method)
    monkeypatch.setattr(worker_module, "Wire", type("Wired", (ThreadWire,), {"room": room}))
    one_model_at_a_time(monkeypatch)
    here = local()
    # Stages of a pipeline begin to send by themselves.
    monkeypatch.setattr("torch.distributed.isend", lambda tensor, peer, tag=0: Sent(here.wire.send(tensor, peer, tag)))
    chosen = read_settings(found.settings, settings)
    found.refuse(task, ranks, chosen)

    def run(number: int) -> Ran:
        rank = Rank(number, ranks, number, None, timeout_s=1)
        worker = Worker(task, rank, helpers=found.helpers, splits_batch=found.splits_batch)
        here.wire = worker.wire
        losses = list(found.run(worker, chosen))
        weights = worker.flat.weights.detach().clone().numpy()
        return Ran(weights, losses, worker.notes, own_gradients(worker))

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(run, range(ranks)))
