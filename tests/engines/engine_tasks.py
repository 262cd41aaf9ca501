"""Tasks that other processes import: some end the process that runs them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def square(number: int) -> tuple[int, int]:
    """(number squared, process that did it)."""
    return number * number, os.getpid()


def die_once(task: tuple[str, int]) -> int:
    """Kills its process the first time anybody runs it, then answers."""
    folder, number = task
    if number % 3 == 1:
        try:
            os.close(os.open(Path(folder) / str(number), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return number
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_always(number: int) -> int:
    """Kills its process when the number is 2."""
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def raise_at_three(number: int) -> int:
    """Raises for 3."""
    if number == 3:
        raise KeyError("three")
    return number


def chatter(number: int) -> int:
    """Prints, which must not reach the answers."""
    print("a task prints")
    return number


def counted(task: tuple[str, int]) -> dict[str, object]:
    """Leaves a file for every call."""
    folder, number = task
    (Path(folder) / f"{number}-{time.monotonic_ns()}").touch()
    return {"number": number, "third": number / 3}


def nap(number: int) -> int:
    """Sleeps for as long as a batch should take."""
    time.sleep(0.3)
    return number


def hang(task: tuple[str, int]) -> int:
    """Says which process it is in, and never ends."""
    folder, number = task
    (Path(folder) / f"{os.getpid()}-{number}").touch()
    time.sleep(3600)
    return number
