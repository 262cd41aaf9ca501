"""What ranks do whose launcher is killed: a module without torch, so that a new launcher is there soon."""

import os
import signal
import time

from lockstep.run.launch import Rank


def sleeper(rank: Rank) -> None:
    """Starts a child, and one in a session of its own; says all three process ids, and waits for ever."""
    child = os.fork()
    if child == 0:
        signal.pause()
    stranger = os.fork()
    if stranger == 0:
        os.setsid()
        signal.pause()
    rank.tell((os.getpid(), child, stranger))
    signal.pause()


def talks(rank: Rank) -> None:
    """Tells its launcher something without end."""
    while True:
        rank.tell(rank.number)
        time.sleep(0.001)
