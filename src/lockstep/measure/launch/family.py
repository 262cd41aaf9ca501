"""The processes below a process, and the end of all of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def kill_all(pids: Iterable[int]) -> None:
    """SIGKILL to each that is still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_group(leader: int) -> None:
    """SIGKILL to a process group, if there is anybody left in it; the leader may be gone."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def descendants(pids: Iterable[int]) -> list[int]:
    """Processes that `pids` have started, and those that these have; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found: list[int] = []
    reached = list(pids)
    while reached:
        reached = [child for pid in reached for child in children.get(pid, ())]
        found += reached
    return found
