"""A Dask cluster on this machine: a scheduler here and workers beside it, all on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LOOPBACK = "127.0.0.1"
GUARD = "lockstep.base.engines.guard"
CONNECT = "5s"
"""How long a worker that is gone is called: half a minute, which is Dask's own, is for networks."""


@contextmanager
def local_cluster(workers: int, threads: int = 1) -> Iterator[Any]:
    """The scheduler; each worker, of so many threads, is watched by a nanny that replaces it.

    The workers are started by Dask's own command: those that `LocalCluster` makes would import the caller's script
    again and need an `if __name__ == "__main__"` in it. They are under a guard, which ends them and removes what they
    and the scheduler keep on the disk, also when this process is killed.
    """
    # Imported before the settings change: its own defaults join Dask's settings at the import.
    distributed = import_module("distributed")
    # A session of its own: Ctrl-C is for this process, which then ends them all.
    guard = subprocess.Popen(
        [sys.executable, "-P", "-m", GUARD], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True, text=True,
    )  # fmt: skip
    with guard:
        folder, loopback = _said(guard), f"{LOOPBACK}:0"
        settings = {"distributed.comm.timeouts.connect": CONNECT, "temporary-directory": folder}
        with (
            import_module("dask").config.set(settings),
            distributed.LocalCluster(
                n_workers=0, host=LOOPBACK, dashboard_address=loopback, silence_logs=50
            ) as scheduler,
        ):  # fmt: skip
            command = [sys.executable, "-P", "-m", "dask", "worker", scheduler.scheduler_address, "--no-dashboard"]
            command += ["--host", LOOPBACK, "--dashboard-address", loopback, "--death-timeout", "30"]
            command += ["--nworkers", str(workers), "--nthreads", str(threads), "--local-directory", folder]
            _tell(guard, command)
            try:
                yield scheduler
            finally:
                guard.terminate()
                guard.wait()


def _said(guard: subprocess.Popen[str]) -> str:
    """The line that the guard has said."""
    return guard.stdout.readline().strip() if guard.stdout else ""


def _tell(guard: subprocess.Popen[str], command: list[str]) -> None:
    """Gives the guard its command."""
    if guard.stdin:
        print(json.dumps(command), file=guard.stdin, flush=True)


def environment() -> dict[str, str]:
    """Workers import from where we do, with as many BLAS threads: sums of other lengths differ in the last bit."""
    threads = {name: os.environ.get(name, "") for name in THREADS}
    nanny = {f"DASK_DISTRIBUTED__NANNY__PRE_SPAWN_ENVIRON__{name}": value for name, value in threads.items() if value}
    return {**os.environ, **nanny, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
