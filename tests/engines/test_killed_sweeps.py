"""A process with a sweep is killed: its workers end, in the middle of a task too, and no folder of them stays."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SWEEP = """
import sys
from engines.engine_tasks import hang
from lockstep.base.engines import Asking, Questions, find_engine
dict(Asking(Questions(hang, [(sys.argv[2], number) for number in range(4)], {}), find_engine(sys.argv[1])))
"""
PATIENCE_S = 60.0
"""For processes to start, on a busy machine."""
LEAVE_S = 20.0
"""For them to end: less than the half minute after which Dask's workers miss their scheduler."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells whose processes there are")


def marked(mark: str) -> set[int]:
    """Processes that have the mark in their environment, but for zombies."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            dead = (path / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            if not dead and mark.encode() in (path / "environ").read_bytes():
                found.add(int(path.name))
        except OSError:
            continue
    return found


def comes(true: Callable[[], bool], within_s: float) -> bool:
    """Whether it becomes true in that time."""
    until_s = time.monotonic() + within_s
    while not true() and time.monotonic() < until_s:
        time.sleep(0.05)
    return true()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
@pytest.mark.parametrize("moment", ["in a task", "earlier"])
@pytest.mark.parametrize("engine", ["processes:2", "dask:2"])
def test_no_process_outlives_a_killed_sweep(engine: str, moment: str, number: signal.Signals, tmp_path: Path) -> None:
    calls, scratch = tmp_path / "calls", tmp_path / "scratch"
    calls.mkdir()
    scratch.mkdir()
    mark = f"LOCKSTEP_TEST_OF={tmp_path}"
    said = (tmp_path / "said").open("wb")
    path = os.pathsep.join((str(TESTS), *filter(None, sys.path)))
    environment = {**os.environ, "LOCKSTEP_TEST_OF": str(tmp_path), "TMPDIR": str(scratch), "PYTHONPATH": path}
    client = subprocess.Popen([sys.executable, "-c", SWEEP, engine, str(calls)], env=environment, stderr=said)
    try:
        if moment == "in a task":
            assert comes(lambda: any(calls.iterdir()), PATIENCE_S)
        else:
            time.sleep(random.Random(f"{engine} {number}").uniform(0.0, 3.0))
        client.send_signal(number)
        client.wait()
        assert comes(lambda: not marked(mark), LEAVE_S)
        assert list(scratch.iterdir()) == []
        said.close()
        assert "Traceback" not in (tmp_path / "said").read_text()
    finally:
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)
