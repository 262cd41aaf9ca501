"""Kills workers, clients and schedulers of a sweep on Dask at random, and checks that nothing is lost or kept twice.

    python benchmarks/kills.py [--batches 2000] [--kills 100] [--seed 0]

A scheduler, workers and a client that keeps its answers in a file are processes of this machine; whatever is killed is
started again. A question sleeps as long as a batch should take and answers with a digest. In the end the file must have
the answers that one process gives, the same bytes, each once, and no answer that was there may ever have gone. Exit
code 1: it has not.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from lockstep.base.engines import Asking, Questions, Serial, SweepFile, find_engine
from lockstep.base.engines.batches import TARGET_S
from lockstep.base.engines.cluster import environment
from lockstep.base.errors import LockstepError

WORKERS, THREADS = 2, 8
WAIT_S = (0.5, 4.0)
"""Between two kills."""
LONGEST_S = 1800.0


def nap(number: int) -> dict[str, Any]:
    """Sleeps for a batch, then answers."""
    time.sleep(float(os.environ.get("NAP_S", TARGET_S)))
    return {"number": number, "digest": hashlib.sha256(str(number).encode()).hexdigest()}


def questions(batches: int) -> Questions:
    """One task a batch."""
    from kills import nap as there

    return Questions(there, range(batches), {"kills": "nap"})


def client(batches: int, folder: Path) -> int:
    """Asks all that is missing; 3 when it could not."""
    with SweepFile(folder / "kills.sweep") as file:
        asking = Asking(questions(batches), find_engine(f"dask:scheduler-file:{folder / 'scheduler.json'}"), file)
        known = sum(1 for _ in asking)
    return 0 if known == batches else 3


def free_port() -> int:
    """A port of loopback that nobody uses: a scheduler that is started again has the address that workers know."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Stage:
    """The processes, by name; `tend` starts again what has ended."""

    def __init__(self, folder: Path, batches: int) -> None:
        self.folder, self.batches = folder, batches
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.messages: Counter[str] = Counter()
        self.port = free_port()
        here = str(Path(__file__).parent)
        known = environment()
        self.environment = {**known, "PYTHONPATH": os.pathsep.join((here, known["PYTHONPATH"]))}

    def command(self, name: str) -> list[str]:
        """What is started under a name."""
        file, python = str(self.folder / "scheduler.json"), [sys.executable, "-P"]
        if name == "scheduler":
            return [*python, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", str(self.port),
                    "--dashboard-address", "127.0.0.1:0", "--scheduler-file", file]  # fmt: skip
        if name == "client":
            return [*python, __file__, "--batches", str(self.batches), "--folder", str(self.folder)]
        return [*python, "-m", "dask", "worker", "--scheduler-file", file, "--no-nanny", "--no-dashboard",
                "--host", "127.0.0.1", "--nthreads", str(THREADS), "--death-timeout", "20",
                "--local-directory", str(self.folder)]  # fmt: skip

    def tend(self) -> bool:
        """Starts what has ended; true once the client has all answers."""
        for name in ("scheduler", *(f"worker {number}" for number in range(WORKERS)), "client"):
            process = self.processes.get(name)
            code = None if process is None else process.poll()
            if name == "client" and code is not None:
                self.messages[{0: "complete", 2: "refused", 3: "ended early"}.get(code, f"code {code}")] += 1
                if code == 0:
                    return True
            if process is None or code is not None:
                with (self.folder / "log.txt").open("ab") as log:
                    self.processes[name] = subprocess.Popen(
                        self.command(name), env=self.environment, stdout=log, stderr=log, start_new_session=True
                    )
        return False

    def kill(self, name: str) -> None:
        """Without a warning; a scheduler that is gone leaves its file behind, as on a cluster."""
        with suppress(ProcessLookupError):
            os.killpg(self.processes[name].pid, signal.SIGKILL)
        self.processes[name].wait()

    def end(self) -> None:
        """Nothing is left."""
        for name in self.processes:
            self.kill(name)


def contents(path: Path, batches: int) -> list[bytes | None]:
    """The answers of a file in the order of the questions."""
    key = questions(batches).keys()
    with SweepFile(path, writes=False) as file:
        return [file.answer(key(place)) for place in range(batches)]


def torment(batches: int, kills: int, seed: int, folder: Path) -> int:
    """The whole run; 1 when anything was lost or differs."""
    chance, stage, done = random.Random(seed), Stage(folder, batches), Counter[str]()
    most, lost, began_s = 0, 0, time.monotonic()
    file = folder / "kills.sweep"
    try:
        while time.monotonic() - began_s < LONGEST_S:
            if stage.tend():
                break
            time.sleep(chance.uniform(*WAIT_S))
            known = 0
            with suppress(LockstepError), SweepFile(file, writes=False) as reader:
                known = len(reader)
            lost += max(0, most - known)
            most = max(most, known)
            if done.total() < kills and known < batches:
                name = chance.choice((*(f"worker {number}" for number in range(WORKERS)), "client", "scheduler"))
                stage.kill(name)
                done[name.split()[0]] += 1
    finally:
        stage.end()
    os.environ["NAP_S"] = "0"
    with SweepFile(folder / "serial.sweep") as serial:
        list(Asking(questions(batches), Serial(), serial))
    same = contents(file, batches) == contents(folder / "serial.sweep", batches)
    with SweepFile(file, writes=False) as reader:
        kept = len(reader)
    took_s = time.monotonic() - began_s
    print(f"{batches} batches, {done.total()} kills {dict(done)} in {took_s:.0f} s; clients: {dict(stage.messages)}")
    print(f"answers kept {kept}, lost {lost}, bytes of one process: {'the same' if same else 'OTHERS'}")
    return int(not same or kept != batches or lost > 0 or stage.messages["complete"] != 1)


def main() -> int:
    """The client where a folder is given, else all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    if given.folder is not None:
        try:
            return client(given.batches, given.folder)
        except LockstepError as error:
            print(error, file=sys.stderr, flush=True)
            return 2
    with tempfile.TemporaryDirectory() as folder:
        code = torment(given.batches, given.kills, given.seed, Path(folder))
        if code:
            print((Path(folder) / "log.txt").read_text(errors="replace")[-3000:])
        return code


if __name__ == "__main__":
    raise SystemExit(main())
