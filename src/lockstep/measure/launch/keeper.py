"""`keep`: the process between the ranks' server and a rank, which leaves nothing of the rank behind.

The kernel makes it the parent of whatever the rank's family leaves without one (PR_SET_CHILD_SUBREAPER), so all that
the rank has ever started stays below it, in whichever group or session. It ends all of it

    when the rank ends, and then ends in the same way, exit code or signal
    when the launcher asks it to (SIGTERM), or has died: the server dies with it, which the kernel tells by the same
    signal (PR_SET_PDEATHSIG)

In all of these the files of the run go too when the launcher lives no more, which is told by its lock on their folder:
its ranks may notice its death, and die of it, before the server does.
A keeper that is killed takes the rank and its group with it. Where there is no prctl(2), as on macOS, the rank's group
is all that is ended.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path

from lockstep.measure.launch.family import descendants, kill_all, kill_group
from lockstep.measure.launch.folder import held, sweep

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
HEARD = (signal.SIGTERM, signal.SIGCHLD)


def keep(folder: Path, sockets: Path) -> None:
    """Forks: returns in the rank, and never in its keeper, which removes both folders when the launcher has died."""
    os.setpgid(0, 0)
    _let_server_go()
    keeper = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    rank = os.fork()
    if rank:
        _adopt_all()
        os._exit(_wait(rank, folder, sockets))
    _tell_at_parents_death(signal.SIGKILL)
    if os.getppid() != keeper:
        os._exit(1)
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)


def _let_server_go() -> None:
    """Closes the pipe by which the server notices its launcher's death, and which it gives to all that it forks."""
    held = getattr(getattr(forkserver, "_forkserver", None), "_forkserver_alive_fd", None)
    if held is not None:
        os.close(held)


def _adopt_all() -> None:
    """Becomes the parent of orphans below, and hears of the server's death."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    _tell_at_parents_death(signal.SIGTERM)
    if os.getppid() == 1:
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
