"""The resource for Dask's operator on Kubernetes: what the operator needs of it, and its commands run as pods would.

What the operator does was read from its controller (dask-kubernetes, operator/controller/controller.py): it names the
service and its labels after the cluster, gives workers their name and the scheduler's address by two variables, and
scales down through the port `http-dashboard`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from cli_runner import run
from lockstep.base.engines.cluster import environment

RESOURCE: dict[str, Any] = yaml.safe_load((Path(__file__).parents[2] / "examples" / "kubernetes.yaml").read_text())
NAME = RESOURCE["metadata"]["name"]
QUICK = ("converge", "noise-scale", "--set", "repetitions=100", "--sweep", "condition=1,10", "--seeds", "3", "--json")


def container(role: str) -> dict[str, Any]:
    """The only container of the pods of a role."""
    (found,) = RESOURCE["spec"][role]["spec"]["containers"]
    return dict(found)


def test_the_kubernetes_service_selects_its_own_scheduler() -> None:
    assert (RESOURCE["apiVersion"], RESOURCE["kind"]) == ("kubernetes.dask.org/v1", "DaskCluster")
    service, ports = RESOURCE["spec"]["scheduler"]["service"], container("scheduler")["ports"]
    assert service["selector"] == {"dask.org/cluster-name": NAME, "dask.org/component": "scheduler"}
    there = {one["name"]: one["containerPort"] for one in ports}
    assert {one["name"]: one["port"] for one in service["ports"]} == there
    assert {one["targetPort"] for one in service["ports"]} == set(there)
    assert there == {"tcp-comm": 8786, "http-dashboard": 8787}
    assert container("scheduler")["readinessProbe"]["httpGet"] == {"path": "/health", "port": "http-dashboard"}


def test_both_roles_have_one_image_and_workers_one_thread() -> None:
    assert container("scheduler")["image"] == container("worker")["image"]
    threads = {one["name"]: one["value"] for one in container("worker")["env"]}
    assert threads == {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def expanded(words: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """The words with every $(NAME) replaced, as Kubernetes does."""
    for name, value in variables.items():
        words = [word.replace(f"$({name})", value) for word in words]
    assert not any("$(" in word for word in words)
    return list(words)


@contextmanager
def pod(words: Sequence[str], variables: Mapping[str, str], *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command of a container as a process of this machine."""
    assert words[0] == "dask"
    command = [sys.executable, "-P", "-m", *expanded(words, variables), *more]
    process = subprocess.Popen(
        command, env={**environment(), **variables}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses."""
    with ExitStack() as stack:
        open_ones = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in open_ones:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in open_ones]


def healthy(port: int) -> bool:
    """What the readiness probe asks."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_the_manifest_commands_serve_the_address_of_the_service(tmp_path: Path) -> None:
    comm, http = free_ports(2)
    address = f"tcp://127.0.0.1:{comm}"
    loopback = ("--host", "127.0.0.1", "--port", str(comm), "--dashboard-address", f"127.0.0.1:{http}")
    given = {"DASK_SCHEDULER_ADDRESS": address, "DASK_WORKER_NAME": f"{NAME}-default-worker-0"}
    more = ("--host", "127.0.0.1", "--local-directory", str(tmp_path))
    with pod(container("scheduler")["args"], {}, *loopback) as scheduler:
        while not healthy(http):
            time.sleep(0.1)
            assert scheduler.poll() is None, "the scheduler did not start"
        with pod(container("worker")["args"], given, *more):
            asked = [sys.executable, "-m", "lockstep", *QUICK, "--engine", f"dask:{address}"]
            there = subprocess.run(asked, env=environment(), capture_output=True, text=True, timeout=100, check=False)
    assert there.stdout == run(*QUICK).out, there.stderr
