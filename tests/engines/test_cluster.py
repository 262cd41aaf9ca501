"""Dask clusters that run already: found by file or TLS address, other versions refused, a lost scheduler survived."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import distributed
import numpy as np
import pytest

import lockstep
from cli_runner import run
from engines.engine_tasks import nap
from lockstep.base.engines import Asking, Dask, Questions, SweepFile, questions
from lockstep.base.engines import dask as engine_of_dask
from lockstep.base.engines.cluster import environment
from lockstep.base.engines.dask import Other, answer_there
from lockstep.base.engines.questions import FILES, tree_digest, versions

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
QUICK = ("converge", "noise-scale", "--set", "repetitions=100", "--sweep", "condition=1,10", "--seeds", "3", "--json")
OTHER_NUMPY = """
import importlib.metadata as metadata, distributed.versions as there
def version(name, known=metadata.version):
    return "9.9" if name == "numpy" else known(name)
metadata.version = there.version = version
there._version_cached.cache_clear()
"""


@contextmanager
def started(*command: str, more: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process of Dask while the context lasts."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "dask", *command], env={**environment(), **more}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def cluster(
    folder: Path, *, preload: str = "", protocol: str = "tcp", more: Mapping[str, str] | None = None
) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A scheduler and a worker of two threads; the scheduler's file, and its process."""
    file, more = folder / "scheduler.json", more or {}
    local = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0", "--protocol", protocol)
    script = folder / "preload.py"
    script.write_text(preload)
    with started("scheduler", *local, "--port", "0", "--scheduler-file", str(file), more=more) as scheduler:
        while not file.exists():
            time.sleep(0.05)
            assert scheduler.poll() is None, "the scheduler did not start"
        with started(
            "worker", *local, "--scheduler-file", str(file), "--no-nanny", "--nthreads", "2", "--preload", str(script),
            "--local-directory", str(folder), more=more,
        ):  # fmt: skip
            yield file, scheduler


def test_a_dask_scheduler_is_found_by_its_file(tmp_path: Path) -> None:
    with cluster(tmp_path) as (file, _):
        assert run(*QUICK, "--engine", f"dask:scheduler-file:{file}").out == run(*QUICK).out
    assert "no scheduler file" in run(*QUICK, "--engine", f"dask:scheduler-file:{tmp_path / 'none'}").refusal()


def test_a_worker_of_another_version_is_refused_naming_both_versions(tmp_path: Path) -> None:
    with cluster(tmp_path, preload=OTHER_NUMPY) as (file, _):
        # Before the worker has joined, the first batch would find it out.
        with distributed.Client(scheduler_file=str(file), timeout=120) as client:
            client.wait_for_workers(1, timeout=120)
        said = run(*QUICK, "--engine", f"dask:scheduler-file:{file}").refusal()
    assert f"numpy 9.9 where {np.__version__} is here" in said


def test_a_worker_with_other_files_of_the_same_version_is_refused(tmp_path: Path) -> None:
    """As an editable install of another commit."""
    there = tmp_path / "there"
    shutil.copytree(Path(lockstep.__file__).parent, there / "lockstep", ignore=shutil.ignore_patterns("__pycache__"))
    with (there / "lockstep" / "base" / "units.py").open("a") as file:
        file.write("# another commit\n")
    more = {"PYTHONPATH": os.pathsep.join((str(there), environment()["PYTHONPATH"]))}
    with cluster(tmp_path, more=more) as (path, _):
        said = run(*QUICK, "--engine", f"dask:scheduler-file:{path}").refusal()
    assert f"{FILES} {tree_digest(there / 'lockstep')} where {versions()[FILES]} is here" in said


def test_the_digest_of_a_folder_is_of_names_and_contents(tmp_path: Path) -> None:
    def digest(**files: str) -> str:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        for name, text in files.items():
            (folder / name).write_text(text)
        (folder / "__pycache__").mkdir()
        (folder / "__pycache__" / folder.name).touch()
        return tree_digest(folder)

    assert digest(a="1", b="2") == digest(b="2", a="1")
    assert len({digest(a="1", b="2"), digest(a="2", b="1"), digest(a="1"), digest(a="1", c="2"), digest(a="12")}) == 5


def test_threads_of_a_worker_that_start_together_digest_the_files_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once each, with 64 of them at the cost of seconds during which none of them works."""
    digested = list[Path]()

    def digest(folder: Path) -> str:
        digested.append(folder)
        time.sleep(0.1)  # for long enough that every thread has asked before the first is answered
        return "digest"

    monkeypatch.setattr(questions, "tree_digest", digest)
    questions._versions.cache_clear()
    try:
        with ThreadPoolExecutor(16) as threads:
            found = list(threads.map(lambda _: questions.versions(), range(16)))
    finally:
        questions._versions.cache_clear()
    assert len(digested) == 1
    assert found == [found[0]] * 16


def test_a_late_worker_of_another_version_answers_nothing() -> None:
    found = answer_there({**versions(), "lockstep": "0.0"}, abs, [1])
    assert found == Other(versions())


def test_a_lost_scheduler_keeps_the_known_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(tmp_path) as (path, scheduler), SweepFile(tmp_path / "a.sweep") as file:

        def kill(done: int, total: int) -> None:
            if done >= 3 and scheduler.poll() is None:
                scheduler.kill()

        monkeypatch.setattr(engine_of_dask, "CONNECT_S", 5.0)
        asking = Asking(Questions(nap, range(200), {}), Dask(scheduler_file=str(path)), file, kill)
        known = dict(asking)
        assert 3 <= len(known) < 200
        assert "the Dask scheduler is gone" in asking.stopped
        assert f"{len(known)} of 200 answers are known" in asking.stopped
        assert str(file.path) in asking.stopped
        assert len(file) == len(known)


def test_killing_workers_clients_or_schedulers_loses_nothing() -> None:
    """A short one of what `benchmarks/kills.py` does to 2,000 batches."""
    command = [sys.executable, str(BENCHMARKS / "kills.py"), "--batches", "60", "--kills", "5", "--seed", "2"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "bytes of one process: the same" in ended.stdout


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_tls_follows_the_dask_configuration(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout",
         str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    tls = {f"DASK_DISTRIBUTED__COMM__TLS__{role}__{what}": str(path) for role in ("SCHEDULER", "WORKER", "CLIENT")
           for what, path in (("KEY", key), ("CERT", certificate))}  # fmt: skip
    tls |= {"DASK_DISTRIBUTED__COMM__TLS__CA_FILE": str(certificate),
            "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"}  # fmt: skip
    with cluster(tmp_path, protocol="tls", more=tls) as (file, _):
        assert '"tls://' in file.read_text()
        command = [sys.executable, "-m", "lockstep", *QUICK, "--engine", f"dask:scheduler-file:{file}"]
        there = subprocess.run(command, env={**environment(), **tls}, capture_output=True, text=True, timeout=120)
        assert there.stdout == run(*QUICK).out, there.stderr


SBATCH = """#!/bin/bash
# What sbatch does with a script and its arguments, on one machine.
SLURM_JOB_ID=7 SLURM_NNODES=2 SLURM_CPUS_PER_TASK=1 exec bash "$@"
"""
SRUN = """#!/bin/bash
# What srun does: the command once on each node.
while [[ "$1" == --* ]]; do shift; done
trap 'kill $(jobs -p); wait' TERM
for node in $(seq "$SLURM_NNODES"); do "$@" & done
wait
"""


def test_the_slurm_script_runs_under_a_stub(tmp_path: Path) -> None:
    for name, text in (("sbatch", SBATCH), ("srun", SRUN)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    known = environment()
    path = os.pathsep.join((str(tmp_path), str(Path(sys.executable).parent), known["PATH"]))
    script = Path(__file__).parents[2] / "examples" / "slurm.sh"
    asked = ("sbatch", str(script), *QUICK, "--store", "kept.sweep")
    (work := tmp_path / "work").mkdir()
    done = subprocess.run(asked, cwd=work, env={**known, "PATH": path}, capture_output=True, text=True, timeout=100)
    assert done.stdout == run(*QUICK).out, done.stderr[-2000:]
    assert [one.name for one in work.iterdir()] == ["kept.sweep"]
