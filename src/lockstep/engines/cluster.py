"""A Dask cluster on this machine: a scheduler here and workers beside it, all on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LOOPBACK = "127.0.0.1"
LEAVE_S = 10.0
CONNECT = "5s"
"""How long a worker that is gone is called: half a minute, which is Dask's own, is for networks."""


@contextmanager
def local_cluster(workers: int, threads: int = 1) -> Iterator[Any]:
    """The scheduler; each worker, of so many threads, is watched by a nanny that replaces it.

    The workers are started by Dask's own command: those that `LocalCluster` makes would import the caller's script
    again and need an `if __name__ == "__main__"` in it.
    """
    # Imported before the settings change: its own defaults join Dask's settings at the import.
    distributed = import_module("distributed")
    with (
        import_module("dask").config.set({"distributed.comm.timeouts.connect": CONNECT}),
        distributed.LocalCluster(
            n_workers=0, host=LOOPBACK, dashboard_address=f"{LOOPBACK}:0", silence_logs=50
        ) as scheduler,
    ):  # fmt: skip
        command = [sys.executable, "-P", "-m", "dask", "worker", scheduler.scheduler_address, "--no-dashboard"]
        command += ["--host", LOOPBACK, "--dashboard-address", f"{LOOPBACK}:0"]
        command += ["--nworkers", str(workers), "--nthreads", str(threads), "--death-timeout", "30"]
        with tempfile.TemporaryDirectory() as scratch:
            # A session of their own: Ctrl-C is for this process, which then ends them all.
            beside = subprocess.Popen(
                [*command, "--local-directory", scratch], env=environment(), stdout=subprocess.DEVNULL,
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


def environment() -> dict[str, str]:
    """Workers import from where we do, with as many BLAS threads: sums of other lengths differ in the last bit."""
    threads = {name: os.environ.get(name, "") for name in THREADS}
    nanny = {f"DASK_DISTRIBUTED__NANNY__PRE_SPAWN_ENVIRON__{name}": value for name, value in threads.items() if value}
    return {**os.environ, **nanny, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
