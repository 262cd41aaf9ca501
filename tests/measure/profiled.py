"""Ranks that compute and sum under torch.profiler, one of them with a real fault."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from lockstep.measure.launch import Rank
from lockstep.measure.profiling import Profiling
from lockstep.measure.train.wire import Wire

VICTIM = 1
FAULT_S = 0.15
STEPS = 8
ELEMENTS = 100_000


def work(rank: Rank, folder: str, fault: str) -> None:
    """Some steps of products and one all-reduce each."""
    import torch

    torch.set_num_threads(1)
    values, total = torch.ones(256, 256), torch.ones(ELEMENTS)
    mine = fault if rank.number == VICTIM else ""
    wire = Wire(rank)
    with closing(wire), closing(Profiling(folder, rank.number)) as profiling, niced(mine == "nice"):
        for step in range(STEPS):
            profiling.step(step)
            for _ in range(20):
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
def niced(wanted: bool) -> Iterator[None]:
    """Shares one core with a busy process that has a higher priority, until the end."""
    if not wanted:
        yield
        return
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    loop = f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    rival = subprocess.Popen([sys.executable, "-c", loop])
    os.nice(10)
    try:
        yield
    finally:
        rival.kill()
        rival.wait()
