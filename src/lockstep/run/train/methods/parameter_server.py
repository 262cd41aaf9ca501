"""Asynchronous parameter server with bounded staleness: rank 0 holds the weights, the others send it gradients.

    worker   sends g_k(w) for the w it was last given, waits for new weights
    server   w <- w - eta (s(tau) / n) g_k as each gradient arrives, then answers worker k
    bound    a worker that has sent c gradients is answered once all have sent c - bound (stale synchronous parallel)
n workers. Staleness tau: updates since the worker was given its weights, in whole rounds of n. s weighs old gradients:
none 1, inverse 1/(1 + tau), exponential e^(-tau). With bound 0 everybody waits for everybody: synchronous SGD.

Source: Ho et al. 2013, "More effective distributed ML via a stale synchronous parallel parameter server" (NIPS); Zhang
et al. 2016, "Staleness-aware async-SGD" (arXiv 1511.05950).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.learn.methods.staleness import exponential, inverse
from lockstep.run.train.method import Losses, Method, register
from lockstep.run.train.task import Task
from lockstep.run.train.worker import Worker

SERVER = 0
WEIGHTINGS: dict[str, Callable[[int], float]] = {
    "none": lambda staleness: 1.0,
    "inverse": inverse,
    "exponential": lambda staleness: exponential(staleness, 1.0),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How far workers may part."""

    bound: int = setting(4, "Gradients that a worker may be ahead of the slowest.")
    weighting: str = setting("inverse", "What staleness does to a gradient.", choices=tuple(WEIGHTINGS))
    straggler_s: float = setting(0.0, "Pause of the last worker in every step, to make it one.", most=60)


def run(worker: Worker, settings: Settings) -> Losses:
    """Serves on rank 0, works on the others."""
    yield from _serve(worker, settings) if worker.rank == SERVER else _work(worker, settings.straggler_s)
    if worker.rank == SERVER:
        for other in range(1, worker.ranks):
            worker.wire.send(worker.flat.weights, other)
    else:
        worker.wire.receive(worker.flat.weights, SERVER)


def _work(worker: Worker, straggler_s: float) -> Losses:
    """Gradients out, weights in; the last gradient is answered by the final weights."""
    flat, wire, steps = worker.flat, worker.wire, worker.task.steps
    for step in range(steps):
        loss = worker.gradient(step)
        if worker.rank == worker.ranks - 1:
            time.sleep(straggler_s)
        wire.send(flat.gradients, SERVER)
        if step + 1 < steps:
            wire.receive(flat.weights, SERVER)
        yield loss


def _serve(worker: Worker, settings: Settings) -> Losses:
    """Applies what arrives, answers who may go on."""
    flat, wire, workers, steps = worker.flat, worker.wire, worker.workers, worker.task.steps
    optimizer, weigh = worker.optimizer(flat.weights), WEIGHTINGS[settings.weighting]
    sent, given = [0] * workers, [0] * workers
    waiting: set[int] = set()
    staleness: Counter[int] = Counter()
    for updates in range(workers * steps):
        number = wire.receive(flat.gradients) - 1
        old = (updates - given[number]) // workers
        optimizer.step(flat.gradients * (weigh(old) / workers))
        staleness[old] += 1
        sent[number] += 1
        waiting.add(number)
        for other in sorted(waiting):
            if sent[other] - min(sent) <= settings.bound:
                waiting.remove(other)
                given[other] = updates + 1
                if sent[other] < steps:
                    wire.send(flat.weights, other + 1)
        if (updates + 1) % workers == 0:
            yield None
    worker.notes["staleness"] = {str(rounds): staleness[rounds] for rounds in sorted(staleness)}


def _check(task: Task, ranks: int, settings: Settings) -> None:
    if task.optimizer != "sgd":
        raise BadInput(f"a server that takes gradients one by one needs sgd, not {task.optimizer}", "--optimizer")


PARAMETER_SERVER = register(
    Method(
        name="parameter-server",
        family="asynchronous and decentralized",
        summary="a server takes gradients as they come, with bounded staleness",
        source="Ho et al. 2013 (NIPS); Zhang et al. 2016 (arXiv 1511.05950)",
        run=run,
        resumable=False,
        settings=Settings,
        neutral={"bound": 0},
        helpers=1,
        check=_check,
    )
)
