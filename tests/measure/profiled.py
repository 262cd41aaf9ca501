"""Ranks that compute and sum under torch.profiler, one of them with a real fault."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

from lockstep.run.launch import Rank
from lockstep.run.profiling import WARM_UP, Profiling
from lockstep.run.train.wire import Wire

VICTIM = 1
FAULT_S = 0.4
"""Long beside what a busy machine takes from a rank at random, some 0.1 s of a step at six processes per core."""
STEPS = 8
ELEMENTS = 100_000
PRODUCTS = 40
"""In a step, of about a third of a millisecond each."""


def work(rank: Rank, folder: str, fault: str) -> None:
    """Some steps of products and one all-reduce each."""
    import torch

    torch.set_num_threads(1)
    wire = Wire(rank)
    with closing(wire):
        record(wire, rank.number, folder, fault)


def record(wire: Wire, number: int, folder: str, fault: str) -> None:
    """One profile of a rank."""
    import torch

    values, total = torch.ones(256, 256), torch.ones(ELEMENTS)
    mine = fault if number == VICTIM else ""
    with closing(Profiling(folder, number)) as profiling, ExitStack() as sharing:
        for step in range(STEPS):
            profiling.step(step)
            if mine == "nice" and step == WARM_UP:
                # Not earlier and not longer: starting torch and writing the file would take minutes on a busy machine.
                sharing.enter_context(niced())
            for _ in range(PRODUCTS):
                values = (values @ values) / 256
            disturb(mine)
            wire.all_reduce(total)
            total.fill_(1.0)


def disturb(fault: str) -> None:
    """A pause, or a loop that keeps the processor busy."""
    until = time.monotonic() + FAULT_S
    if fault == "sleep":
        time.sleep(FAULT_S)
    while fault == "busy" and time.monotonic() < until:
        pass


@contextmanager
def niced() -> Iterator[None]:
    """The calling thread shares one core with a busy process that has a higher priority, until the end."""
    cores, priority = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)
    core = min(cores)
    os.sched_setaffinity(0, {core})
    loop = f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    rival = subprocess.Popen([sys.executable, "-c", loop])
    os.nice(10)
    try:
        yield
    finally:
        rival.kill()
        rival.wait()
        os.sched_setaffinity(0, cores)
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, priority)
