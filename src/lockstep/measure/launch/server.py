"""The server that ranks are forked from, started by the launcher and warm until it ends.

It is multiprocessing's own, with three differences: it does not import from the working directory, where a `bisect.py`
of the user would be taken for Python's; its sockets are in a folder that the launcher holds, by which others know when
the launcher is dead; and it removes that folder, and all others that the launcher held, when it ends.

The server imports this module too, and is told by a variable that it is the server.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from multiprocessing import forkserver, process, resource_tracker, util
from multiprocessing.context import ForkServerContext
from pathlib import Path

from lockstep.measure.launch.folder import run_folder, sweep

PRELOADED = (
    "numpy", "torch", "torch.distributed", __name__, "lockstep.measure.launch.rank",
    "lockstep.measure.execute.worker", "lockstep.measure.bench.collective",
)  # fmt: skip
HOME = "LOCKSTEP_SERVER_FOLDER"
"""The variable that tells the server where its folder is."""
SAFE_PATH = "PYTHONSAFEPATH"
OURS = "for the server"
"""Value of PYTHONSAFEPATH when it is not the user's; ranks do not inherit it."""
IMPORTED_AGAIN = 91
"""Exit code of a rank whose import of the user's script came back to starting ranks."""
PATIENCE_S, TICK_S = 2.0, 0.05


def ranks_context() -> ForkServerContext:
    """The context to start ranks in, whose server runs and has imported torch."""
    leave_if_imported_again()
    sockets_folder()
    with _environment():
        # Started by the first rank otherwise, with the working directory first in its path.
        resource_tracker.ensure_running()
        _context()
        forkserver.ensure_running()
    return _context()


def leave_if_imported_again() -> None:
    """Ends a process that is to be a rank, while it still imports the script of its launcher."""
    if _told is not None and getattr(process.current_process(), "_inheriting", False):
        os._exit(IMPORTED_AGAIN)


@cache
def sockets_folder() -> Path:
    """Where the server listens; in a folder that this process holds until it ends, if nothing has chosen one before."""
    before = tempfile.tempdir
    tempfile.tempdir = str(_home())
    try:
        return Path(util.get_temp_dir())
    finally:
        tempfile.tempdir = before


@cache
def _home() -> Path:
    """A folder held for the life of this process."""
    held = ExitStack()
    folder = held.enter_context(run_folder())
    # After multiprocessing has removed its own folder inside, which it does at -100; not in copies by os.fork.
    util.Finalize(None, held.close, exitpriority=-200)
    return folder


@cache
def _context() -> ForkServerContext:
    context = ForkServerContext()
    context.set_forkserver_preload(list(PRELOADED))
    return context


@contextmanager
def _environment() -> Iterator[None]:
    """The variables that the server starts with, which this process does not keep."""
    changed = {HOME: str(_home())} | ({} if os.environ.get(SAFE_PATH) else {SAFE_PATH: OURS})
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _remove(home: Path) -> None:
    """In the server, at its end: removes what its launcher held, once the launcher is gone."""
    until_s = time.monotonic() + PATIENCE_S
    while home.exists() and time.monotonic() < until_s:
        sweep(home.parent)
        time.sleep(TICK_S)


_told = os.environ.pop(HOME, None)
if _told is not None:
    if os.environ.get(SAFE_PATH) == OURS:
        del os.environ[SAFE_PATH]
    atexit.register(_remove, Path(_told))
