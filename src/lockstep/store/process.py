"""Whether the process that writes a run is still there: its number alone is not enough, numbers are used again."""

from __future__ import annotations

import os
from pathlib import Path


def started(pid: int) -> str:
    """When a process began, as the system counts it; empty where the system does not say or it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    # State is field 3 of proc(5), the start field 22; a zombie has ended, it only has not been collected.
    return "" if fields[0] == "Z" else fields[19]


def alive(pid: object, began: object) -> bool:
    """Whether process `pid` runs and is the one that began then."""
    if not isinstance(pid, int) or pid <= 0:
        return False
    if Path("/proc/self/stat").exists():
        return began != "" and started(pid) == began
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
