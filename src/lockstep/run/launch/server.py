"""The server that ranks are forked from, started by the launcher and warm until it ends.

It is multiprocessing's own, with three differences: it does not import from the working directory, where a `bisect.py`
of the user would be taken for Python's; its sockets are in a folder that the launcher holds, by which others know when
the launcher is dead; and it removes that folder, and all others that the launcher held, when it ends.

The server imports this module too, and is told by a variable that it is the server.

`run_folder`: where the ranks of a run meet and say where they are. A shared lock (flock(2)) on the folder says that its
launcher lives: the kernel lets go of it with the process, in whatever way that ends. `sweep` removes folders that
nobody holds."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from multiprocessing import forkserver, parent_process, resource_tracker, util
from multiprocessing.context import ForkServerContext
from pathlib import Path

from lockstep.base.documents.files import open_folder
from lockstep.base.errors import BadInput

PREFIX = "lockstep-run-"
PRELOADED = (
    "numpy", "torch", "torch.distributed", __name__, "lockstep.run.launch.rank",
    "lockstep.run.execute.worker", "lockstep.run.bench.collective",
)  # fmt: skip
HOME = "LOCKSTEP_SERVER_FOLDER"
"""The variable that tells the server where its folder is."""
SAFE_PATH = "PYTHONSAFEPATH"
OURS = "for the server"
"""Value of PYTHONSAFEPATH when it is not the user's; ranks do not inherit it."""
IMPORTED_AGAIN = 91
"""Exit code of a rank whose import of the user's script came back to starting ranks."""
PATIENCE_S, TICK_S = 2.0, 0.05


@contextmanager
def run_folder() -> Iterator[Path]:
    """A new folder, held until the context ends and removed then; what dead launchers left is removed first.

    Raises BadInput where no temporary folder can be made.
    """
    with temporary_files():
        sweep(Path(tempfile.gettempdir()))
        folder, handle = _new()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


@contextmanager
def temporary_files() -> Iterator[None]:
    """For making what a run needs for itself: a full or read-only disk becomes BadInput."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"no temporary files can be made: {error.strerror or error}", "TMPDIR") from None


def _new() -> tuple[Path, int]:
    """A folder and what holds it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        handle = _hold(folder)
        # Until it was held, somebody else's sweep may have taken it for a dead one.
        if handle is not None and os.path.exists(folder):
            return folder, handle


def _hold(folder: Path) -> int | None:
    """A file descriptor that holds the folder as long as it is open; None when the folder is gone."""
    try:
        handle = open_folder(folder)
    except BadInput:
        return None
    fcntl.flock(handle, fcntl.LOCK_SH)
    return handle


def held(folder: Path) -> bool:
    """Whether its launcher lives; False for a folder that is gone."""
    try:
        handle = open_folder(folder)
    except BadInput:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def sweep(where: Path) -> None:
    """Removes this user's folders of runs in `where` that nobody holds; whatever else has such a name is left alone."""
    for folder in where.glob(f"{PREFIX}*"):
        try:
            handle = open_folder(folder)
        except BadInput:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue
        finally:
            os.close(handle)


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
    """Ends a process that is to be a rank, while it still imports the script of its launcher and has no parent yet."""
    if _told is not None and parent_process() is None:
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
    while os.path.exists(home) and time.monotonic() < until_s:
        sweep(home.parent)
        time.sleep(TICK_S)


_told = os.environ.pop(HOME, None)
if _told is not None:
    if os.environ.get(SAFE_PATH) == OURS:
        del os.environ[SAFE_PATH]
    atexit.register(_remove, Path(_told))
