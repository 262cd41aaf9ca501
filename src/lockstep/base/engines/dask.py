"""Batches on a Dask cluster: a local one that starts and ends with the questions, or one that runs already.

Two batches are under way per worker thread, refilled as they complete; workers may come and go. The scheduler gives the
batch of a dead worker to another. Workers with another Python, numpy or Lockstep are refused, before the first batch
and with each one, as a worker may join late and only it can tell whether its files of Lockstep are ours. TLS and every
other setting of a connection is Dask's own configuration.

Source: distributed.dask.org, "Resilience", "Managing Computation" and "TLS/SSL".
"""

from __future__ import annotations

import logging
import os
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import Any, ClassVar

from lockstep.base.engines.cluster import local_cluster
from lockstep.base.engines.engine import MOST_DEATHS, Answered, Batch, Engine, EngineLost, answer_batch
from lockstep.base.engines.questions import versions
from lockstep.base.errors import BadInput, not_installed
from lockstep.base.records import dataclass, field

CONNECT_S = 10.0
START_S = 120.0
"""For the first worker of a local cluster, on a machine that is busy."""
PER_THREAD = 2
"""Batches under way: one is worked on, one waits beside it."""
LOOK_S, LOOK_FIRST_S = 1.0, 0.1
"""Between looks at how many workers there are, and while there are none."""
FETCHING = 32
"""Threads that fetch answers: each waits for three processes, and for longer where a worker has died with its own."""
LOG = logging.getLogger("lockstep.engines")
GONE = ("closed", "closing")


@dataclass(frozen=True, slots=True)
class Dask(Engine):
    """The cluster whose scheduler is at `address` or wrote `scheduler_file`, or a local one with a worker per core."""

    name: ClassVar[str] = "dask"
    address: str | None = None
    scheduler_file: str | None = None
    workers: int | None = None
    """Of a local cluster."""

    def run(self, function: Callable[[Any], Any], batches: Iterator[Batch]) -> Iterator[Answered]:
        """Every batch with its answers as they come. Raises BadInput for workers of other versions, EngineLost."""
        with self._client() as client, _losing_it():
            refuse_other_versions(client.get_versions(packages=["numpy"]))
            deaths = MOST_DEATHS - 1
            # A batch may kill as many workers as on any other engine. A lambda travels by its code: Lockstep need not
            # be installed beside the scheduler.
            client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", deaths))
            yield from _Flight(client, function, batches).answers()

    @contextmanager
    def _client(self) -> Iterator[Any]:
        """A client of the cluster that runs, or of a local one around it."""
        distributed = distributed_or_refuse()
        if self.address is None and self.scheduler_file is None:
            workers = self.workers or len(os.sched_getaffinity(0))
            with local_cluster(workers) as scheduler, distributed.Client(scheduler) as client:
                client.wait_for_workers(1, timeout=START_S)
                yield client
            return
        if self.scheduler_file is not None and not os.path.isfile(self.scheduler_file):
            raise BadInput(f"no scheduler file {self.scheduler_file!r}; has the scheduler started?", "--engine")
        try:
            with warnings.catch_warnings():
                # What differs is refused here, with both versions.
                warnings.simplefilter("ignore", import_module("distributed.versions").VersionMismatchWarning)
                client = distributed.Client(self.address, scheduler_file=self.scheduler_file, timeout=CONNECT_S)
        except (OSError, ValueError, TypeError) as error:
            where = self.address or f"the address in {self.scheduler_file}"
            raise BadInput(f"no Dask scheduler answers at {where}: {error}", "--engine") from None
        # Dask tells of a lost scheduler in its own words; ours say what is known.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        with client:
            yield client


def distributed_or_refuse() -> Any:
    """The module `distributed`. Raises BadInput where it is not installed."""
    try:
        return import_module("distributed")
    except ImportError:
        raise not_installed("needs dask.distributed", "sweep", "--engine") from None


def refuse_other_versions(found: Any) -> None:
    """Raises BadInput where a worker, by what Dask says of it, has another Python or numpy than we.

    A worker compares its Lockstep itself, by version and files, with every batch (`answer_there`).
    """
    python = found["scheduler"]["host"]["python"].split(".")[:2]
    if python != versions()["python"].split(".")[:2]:
        here = versions()["python"]
        raise BadInput(f"the scheduler runs Python {'.'.join(python)}, and {here} is here; use the same", "--engine")
    for address, one in found["workers"].items():
        there = {"python": ".".join(one["host"]["python"].split(".")[:3])}
        there["numpy"] = one["packages"].get("numpy") or "missing"
        _refuse(str(address), there)


def _refuse(worker: str, there: dict[str, str]) -> None:
    here = versions()
    differing = [name for name in there if here[name] != there[name]]
    if differing:
        said = ", ".join(f"{name} {there[name]} where {here[name]} is here" for name in differing)
        raise BadInput(f"the worker {worker} has {said}; answers could differ: install the same versions", "--engine")


@cache
def comm_closed() -> type[Exception]:
    """What Dask raises where a connection ends while it is used."""
    found: type[Exception] = import_module("distributed.comm").CommClosedError
    return found


@contextmanager
def _losing_it() -> Iterator[None]:
    """A connection that ends, or a client that Dask has closed meanwhile, as EngineLost."""
    closed = getattr(import_module("distributed.client"), "ClosedClientError", comm_closed())
    try:
        yield
    except (comm_closed(), closed):
        raise EngineLost("the Dask scheduler is gone") from None


@dataclass(frozen=True, slots=True)
class Other:
    """What a worker of other versions says instead of an answer."""

    versions: dict[str, str]


def answer_there(
    wanted: dict[str, str], function: Callable[[Any], Any], tasks: Sequence[Any]
) -> tuple[list[bytes], float, str] | Other:
    """On a worker: (answers, seconds, its address), if its versions are those that are wanted."""
    if versions() != wanted:
        return Other(versions())
    return *answer_batch(function, tasks), import_module("distributed").get_worker().address


@dataclass(slots=True)
class _Flight:
    """Batches that are under way."""

    client: Any
    function: Callable[[Any], Any]
    batches: Iterator[Batch]
    flying: dict[str, tuple[Batch, Any]] = field(default_factory=dict)
    suspects: list[Batch] = field(default_factory=list)
    """Batches whose workers died: Dask blames all that a dead worker had, so each is asked once more with no other."""
    alone: bool = False
    """Whether a suspect is under way."""
    done: SimpleQueue[tuple[str, Any]] = field(default_factory=SimpleQueue)
    fetching: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(FETCHING))
    threads: int = 0
    looked_s: float = -LOOK_S

    def answers(self) -> Iterator[Answered]:
        """Every batch as it is done."""
        try:
            while True:
                self._fill()
                if not self.flying:
                    return
                try:
                    key, outcome = self.done.get(timeout=self._look_s())
                except Empty:
                    continue
                batch, _ = self.flying.pop(key)
                if isinstance(outcome, CancelledError | comm_closed()):
                    self._reconnected()
                    self._submit(batch)
                elif isinstance(outcome, distributed_or_refuse().KilledWorker) and not self.alone:
                    self.suspects.append(batch)
                else:
                    yield self._answered(batch, outcome)
        finally:
            self.fetching.shutdown(wait=False, cancel_futures=True)
            if self.client.status not in GONE:
                self.client.cancel([future for _, future in self.flying.values()])

    def _fill(self) -> None:
        """Looks at how many threads there are, and sends batches for those that have room."""
        self._reconnected()
        if time.monotonic() - self.looked_s >= self._look_s():
            found = self.client.scheduler_info(n_workers=0).get("total_threads", 0)
            if not found and (self.threads or self.looked_s < 0):
                LOG.warning("the Dask cluster has no workers; waiting for them")
            self.threads, self.looked_s = found, time.monotonic()
        while len(self.flying) < PER_THREAD * max(1, self.threads):
            batch = None if self.alone else next(self.batches, None)
            if batch is None:
                break
            self._submit(batch)
        if not self.flying and self.suspects:
            self.alone = True
            self._submit(self.suspects.pop())

    def _look_s(self) -> float:
        return LOOK_S if self.threads else LOOK_FIRST_S

    def _submit(self, batch: Batch) -> None:
        future = self.client.submit(
            answer_there, versions(), self.function, batch.tasks, key=f"lockstep-{uuid.uuid4().hex}", pure=False
        )
        self.flying[future.key] = batch, future
        future.add_done_callback(self._fetch)

    def _fetch(self, future: Any) -> None:
        """In a thread of Dask: the answer is fetched in one of ours, as a worker that died with it is called long."""
        with suppress(RuntimeError):
            self.fetching.submit(self._fetched, future)

    def _fetched(self, future: Any) -> None:
        try:
            outcome = future.result()
        except BaseException as error:
            outcome = error
        self.done.put((future.key, outcome))

    def _reconnected(self) -> None:
        """Waits while Dask tries to reach its scheduler again. Raises EngineLost once it has given up."""
        while self.client.status == "connecting":
            time.sleep(LOOK_S / 10)
        if self.client.status in GONE:
            raise EngineLost("the Dask scheduler is gone")

    def _answered(self, batch: Batch, outcome: Any) -> Answered:
        """What became of a batch. Raises what its function raised."""
        if isinstance(outcome, distributed_or_refuse().KilledWorker):
            return Answered(batch, None, workers=max(1, self.threads))
        if isinstance(outcome, ModuleNotFoundError) and (outcome.name or "").startswith("lockstep"):
            raise BadInput(f"a worker cannot load Lockstep ({outcome}); install the same version there", "--engine")
        if isinstance(outcome, BaseException):
            raise outcome
        if isinstance(outcome, Other):
            _refuse("that joined", {name: outcome.versions.get(name, "unknown") for name in versions()})
        answers, seconds, worker = outcome
        return Answered(batch, answers, seconds, worker, max(1, self.threads))
