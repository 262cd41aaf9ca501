"""Tasks on a Dask cluster: a local one that starts and ends with the sweep, or the one at an address.

The scheduler gives the task of a dead worker to another; a task whose workers keep dying is given up. A cluster at an
address must have the same Lockstep installed.

Source: distributed.dask.org, "Resilience".
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

from lockstep.errors import BadInput, RunFailed
from lockstep.lab.sweep.engines.engine import MOST_DEATHS, Engine, Result, Task, given_up

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LOOPBACK = "127.0.0.1"
CONNECT_S = 10.0
LEAVE_S = 10.0


@dataclass(frozen=True, slots=True)
class Dask(Engine):
    """The cluster whose scheduler is at `address`, or a local one with a worker per core."""

    name: ClassVar[str] = "dask"
    address: str | None = None
    workers: int | None = None
    """Of a local cluster."""

    def stream(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """(place, `function(task)`) of every task as it is done."""
        distributed = _distributed()
        with self._client() as client:
            futures = client.map(function, list(tasks), pure=False)
            place = {future.key: at for at, future in enumerate(futures)}
            try:
                for future, result in distributed.as_completed(futures, with_results=True):
                    yield place[future.key], result
            except distributed.KilledWorker as error:
                killer = place.get(error.task)
                raise RunFailed(given_up("a task" if killer is None else tasks[killer])) from None

    @contextmanager
    def _client(self) -> Iterator[Any]:
        """A client of the cluster at the address, or of a local one around it."""
        distributed = _distributed()
        if self.address is None:
            workers = self.workers or len(os.sched_getaffinity(0))
            with _local_cluster(workers) as scheduler, distributed.Client(scheduler) as client:
                yield client
            return
        try:
            client = distributed.Client(self.address, timeout=CONNECT_S)
        except (OSError, ValueError) as error:
            raise BadInput(f"no Dask scheduler answers at {self.address}: {error}", "--engine") from None
        with client:
            yield client


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError:
        raise BadInput("needs dask.distributed: pip install 'lockstep[sweep]'", "--engine") from None


@contextmanager
def _local_cluster(workers: int) -> Iterator[Any]:
    """A scheduler here and workers beside it, all on loopback; each is watched by a nanny that replaces it.

    The workers are started by Dask's own command: those that `LocalCluster` makes would import the caller's script
    again and need an `if __name__ == "__main__"` in it.
    """
    # Imported before the settings change: its own defaults join Dask's settings at the import.
    distributed = _distributed()
    settings = {"distributed.scheduler.allowed-failures": MOST_DEATHS - 1}
    with (
        import_module("dask").config.set(settings),
        distributed.LocalCluster(
            n_workers=0, host=LOOPBACK, dashboard_address=f"{LOOPBACK}:0", silence_logs=50
        ) as scheduler,
    ):  # fmt: skip
        command = [sys.executable, "-P", "-m", "dask", "worker", scheduler.scheduler_address, "--no-dashboard"]
        command += ["--host", LOOPBACK, "--dashboard-address", f"{LOOPBACK}:0"]
        command += ["--nworkers", str(workers), "--nthreads", "1", "--death-timeout", "30"]
        with tempfile.TemporaryDirectory() as scratch:
            # A session of their own: Ctrl-C is for this process, which then ends them all.
            beside = subprocess.Popen(
                [*command, "--local-directory", scratch], env=_environment(), stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            try:
                yield scheduler
            finally:
                _end(beside)


def _end(leader: subprocess.Popen[bytes]) -> None:
    """Asks a process to leave, and ends whatever is left of its session."""
    leader.terminate()
    with suppress(subprocess.TimeoutExpired):
        leader.wait(LEAVE_S)
    with suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGKILL)
    leader.wait()


def _environment() -> dict[str, str]:
    """Workers import from where we do, with as many BLAS threads: sums of other lengths differ in the last bit."""
    threads = {name: os.environ.get(name, "") for name in THREADS}
    nanny = {f"DASK_DISTRIBUTED__NANNY__PRE_SPAWN_ENVIRON__{name}": value for name, value in threads.items() if value}
    return {**os.environ, **nanny, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
