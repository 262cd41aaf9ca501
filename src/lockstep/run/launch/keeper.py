"""`keep`: the process between the ranks' server and a rank, which leaves nothing of the rank behind.

The kernel makes it the parent of whatever the rank's family leaves without one (PR_SET_CHILD_SUBREAPER), so all that
the rank has ever started stays below it, in whichever group or session. It ends all of it

    when the rank ends, and then ends in the same way, exit code or signal
    when the launcher asks it to (SIGTERM)
    when the launcher has died: then nobody reads the rank's pipe, which poll(2) tells of its end for writing
    when the server has died, which the kernel tells by the same signal (PR_SET_PDEATHSIG)

In all of these the files of the run go too when the launcher lives no more, which is told by its lock on their folder.
The server ends last: everything that it forks keeps open the pipe by which it notices its launcher's death.
A keeper that is killed takes the rank and its group with it. Where there is no prctl(2), as on macOS, the rank's group
is all that is ended.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from lockstep.run.launch.server import held, sweep

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
HEARD = (signal.SIGTERM, signal.SIGCHLD)


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


def keep(folder: Path, sockets: Path, pipe: Connection) -> None:
    """Forks: returns in the rank, and never in its keeper, which removes both folders when the launcher has died."""
    os.setpgid(0, 0)
    keeper = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    rank = os.fork()
    if rank:
        _adopt_all()
        threading.Thread(target=_end_with_reader, args=(pipe,), daemon=True).start()
        os._exit(_wait(rank, folder, sockets))
    _tell_at_parents_death(signal.SIGKILL)
    if os.getppid() != keeper:
        os._exit(1)
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)


def _adopt_all() -> None:
    """Becomes the parent of orphans below, and hears of the server's death."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    _tell_at_parents_death(signal.SIGTERM)
    if os.getppid() == 1:
        os.kill(os.getpid(), signal.SIGTERM)


def _end_with_reader(pipe: Connection) -> None:
    """Waits until nobody has the pipe's other end any more, and then gives this process the order to end."""
    end = select.poll()
    end.register(pipe, 0)  # Errors are reported whatever is asked for.
    end.poll()
    os.kill(os.getpid(), signal.SIGTERM)


def _tell_at_parents_death(number: signal.Signals) -> None:
    _prctl(PR_SET_PDEATHSIG, number)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value)


def _wait(rank: int, folder: Path, sockets: Path) -> int:
    """Waits for the end of the rank or the order to end it; the exit code, unless a signal is how it ended."""
    server = os.getppid()
    status: int | None = None
    while status is None:
        if signal.sigwait(HEARD) == signal.SIGTERM:
            status = int(signal.SIGTERM)
        else:
            status = _reaped().get(rank)
    _end_all(rank)
    if not held(folder):
        shutil.rmtree(sockets, ignore_errors=True)
        sweep(folder.parent)
    elif os.getppid() != server:
        shutil.rmtree(folder, ignore_errors=True)
    if os.WIFSIGNALED(status):
        _die_by(os.WTERMSIG(status))
    return os.waitstatus_to_exitcode(status)


def _reaped() -> dict[int, int]:
    """Wait status of every child that has ended."""
    found = {}
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found[ended[0]] = ended[1]
    return found


def _end_all(rank: int) -> None:
    """SIGKILL to everything below, until there is nothing."""
    kill_group(rank)
    while below := descendants([os.getpid()]):
        kill_all(below)
        with suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _die_by(number: int) -> None:
    """Ends this process by the signal, without a second core file."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
