"""The folder of a run: where its ranks meet and say where they are.

A shared lock (flock(2)) on the folder says that its launcher lives: the kernel lets go of it with the process, in
whatever way that ends. `sweep` removes folders that nobody holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lockstep.errors import BadInput
from lockstep.files import open_folder

PREFIX = "lockstep-run-"


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
        if handle is not None and folder.exists():
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
