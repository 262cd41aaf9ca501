"""Sockets listen on loopback unless several machines were asked for."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.base.engines.cluster import local_cluster
from lockstep.run.launch import place
from lockstep.run.launch.keeper import descendants

from .test_launch import within

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sockets are found in /proc")
LISTENING = "0A"  # TCP_LISTEN in include/net/tcp_states.h
ROOT = Path(__file__).parents[2]
JOB = """
import os
from lockstep.run.launch import launch
from tests.measure.test_launch_network import listeners

def work(rank):
    return sorted(listeners([os.getpid()]))

if __name__ == "__main__":
    print(launch(work, 2, timeout_s=60))
"""


def listeners(pids: list[int]) -> set[str]:
    """Addresses, as in /proc/net/tcp, on which any of the processes listens."""
    inodes = set()
    for pid in pids:
        for path in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                inodes.add(os.readlink(path))
            except OSError:
                continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in inodes:
                found.add(fields[1])
    return found


def on_loopback(address: str) -> bool:
    """127.x.y.z, whose bytes stand in reverse."""
    host = address.partition(":")[0]
    return len(host) == 8 and host.endswith("7F")


STEP = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_NUM_NODES": "1"}


def test_a_slurm_step_on_one_machine_listens_on_loopback(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "job.py").write_text(JOB)
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), str(ROOT / "tests")])
    step = {**os.environ, **STEP, "PYTHONPATH": path, "MASTER_PORT": str(port)}
    tasks = [
        subprocess.Popen(
            [sys.executable, str(tmp_path / "job.py")], env={**step, "SLURM_PROCID": str(rank)},
            stdout=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    said = [task.communicate(timeout=900)[0] for task in tasks]
    assert said[0] == said[1]
    store, own = ast.literal_eval(said[0])
    assert f"0100007F:{port:04X}" in store
    assert own
    assert all(on_loopback(address) for address in (*store, *own))


def test_a_local_dask_cluster_listens_on_loopback() -> None:
    with local_cluster(1) as scheduler:
        assert within(60, lambda: len(scheduler.scheduler_info["workers"]) == 1)
        found = listeners([os.getpid(), *descendants([os.getpid()])])
    assert len(found) >= 3, "scheduler, dashboard, worker and its nanny"
    assert all(on_loopback(address) for address in found), found


def test_single_machine_jobs_are_recognised() -> None:
    started = {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "node1", "MASTER_PORT": "1234"}
    stepped = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NODELIST": "node1"}
    alone = (
        started | {"LOCAL_WORLD_SIZE": "4"}, started | {"MASTER_ADDR": "127.0.0.1"},
        stepped | {"SLURM_STEP_NUM_NODES": "1"},
        stepped | {"MASTER_ADDR": "localhost"},
    )  # fmt: skip
    several = (started, started | {"LOCAL_WORLD_SIZE": "2"}, stepped, stepped | {"SLURM_STEP_NUM_NODES": "2"})
    for known in (*alone, *several):
        found = place(known)
        assert found is not None
        assert found.one_machine is (known in alone)


def test_the_store_listens_on_the_requested_address() -> None:
    from lockstep.run.launch.launch import _listening

    with socket.socket(fileno=_listening("127.0.0.1", 0)) as served:
        host, port = served.getsockname()
        assert host == "127.0.0.1"
        with socket.create_connection((host, port), timeout=5) as caller:
            assert caller.getpeername() == (host, port)


def test_a_port_in_use_is_named() -> None:
    from lockstep.run.launch.launch import _listening

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"MASTER_PORT: 127.0.0.1:{port} cannot be listened on: Address already"):
            _listening("127.0.0.1", port)
