"""`RunStore`: the runs under one folder; start one, read one, list all, rebuild the index."""

from __future__ import annotations

import os
import platform
import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from lockstep import __version__
from lockstep.base.documents.files import BESIDE
from lockstep.base.errors import BadInput, suggestion
from lockstep.base.store.files import write_whole
from lockstep.base.store.index import Index, Row, row_of
from lockstep.base.store.record import (
    CONFIG,
    DAMAGED,
    ENDED,
    ENVIRONMENT,
    EVENTS,
    RESULT,
    RUNNING,
    SCHEMA,
    Record,
    Unreadable,
    is_id,
    read_record,
    start_of,
    started,
)
from lockstep.base.store.writer import RunWriter
from lockstep.base.types.plain import Json

VARIABLE = "LOCKSTEP_RUNS"
LAST = "last"
_FILES = {f"{name}{end}" for name in (CONFIG, ENVIRONMENT, EVENTS, RESULT) for end in ("", ".tmp")}
"""What this program writes into a run's directory, beside files that a killed writer has left (`BESIDE`)."""


def default_root() -> Path:
    """$LOCKSTEP_RUNS, else the folder `runs` here."""
    return Path(os.environ.get(VARIABLE) or "runs")


class RunStore:
    """Runs as directories `<start, UTC>-<slug>` under `root`, which is made with the first run and may be a link."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = default_root() if root is None else root
        self.index = Index(self.root / "index.sqlite")

    def start(
        self, verb: str, words: Mapping[str, object], label: str = "", environment: Mapping[str, object] | None = None
    ) -> RunWriter:
        """A new run of `verb` asked with `words` (plain JSON). `environment` is added to what is noted of the machine.

        Raises BadInput where the folder cannot be written.
        """
        path = None
        try:
            path = self._new_directory(label or verb)
            write_whole(path / ENVIRONMENT, _environment() | dict(environment or {}))
            writer = RunWriter(path)
            # Last: a directory without it is no run yet.
            write_whole(path / CONFIG, {"schema": SCHEMA, "verb": verb, "label": label, "words": dict(words)})
        except OSError as error:
            if path is not None:
                with suppress(OSError, BadInput):
                    _remove(path)
            raise BadInput(f"cannot keep runs in {self.root}: {error.strerror}", "--runs") from None
        return writer

    def read(self, name: str) -> Record:
        """The run of that id, of the only id that begins or ends so, or the `last` one. Raises BadInput."""
        ids = self.ids()
        if not ids:
            raise BadInput(f"there are no runs in {self.root}", "RUN")
        found = [ids[-1]] if name == LAST else [one for one in ids if one == name]
        found = found or [one for one in ids if one.startswith(name) or one.endswith(name)]
        if len(found) != 1:
            why = f"is the beginning or end of {len(found)} runs" if found else "is not a run"
            raise BadInput(f"{name!r} {why}; {suggestion(name, found or ids)}", "RUN")
        return read_record(self.root / found[0])

    def ids(self) -> list[str]:
        """Names of all runs, oldest first: of directories (no links) that are named and filled as runs are.

        Raises BadInput where the store cannot be read.
        """
        try:
            with os.scandir(self.root) as entries:
                names = [one.name for one in entries if is_id(one.name) and one.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise BadInput(f"cannot read runs from {str(self.root)!r}: {error.strerror}", "--runs") from None
        return sorted(name for name in names if os.path.lexists(self.root / name / CONFIG))

    def rows(self) -> list[Row]:
        """All runs, oldest first; the index is brought up to date with the directories on the way, if it can be."""
        found, changed, gone = self._rows()
        if changed or gone:
            with suppress(BadInput):
                self.index.update(changed, gone)
        return found

    def reindex(self) -> int:
        """Builds the index anew from the directories; returns the number of runs. Raises BadInput."""
        self.index.remove()
        found, changed, _ = self._rows()
        if changed:
            self.index.update(changed)
        return len(found)

    def _rows(self) -> tuple[list[Row], list[Row], list[str]]:
        """(all rows, those of them that the index does not have or that may have changed, ids it has too many)."""
        ids, known = self.ids(), self.index.rows()
        changed = {name: self._row(name) for name in ids if name not in known or known[name].status not in ENDED}
        found = [changed.get(name) or known[name] for name in ids]
        return found, list(changed.values()), sorted(known.keys() - set(ids))

    def _row(self, name: str) -> Row:
        """The line of a run, also of one that cannot be read."""
        try:
            return row_of(read_record(self.root / name))
        except Unreadable as error:
            return Row(name, "", "", DAMAGED, error.message, start_of(name), None, 0)

    def delete(self, name: str) -> str:
        """Removes a run that has ended; returns its id. Nothing but its own files goes, and no link is followed.

        Raises BadInput, before anything is removed where it holds something else.
        """
        record = self.read(name)
        if record.status == RUNNING:
            raise BadInput(f"run {record.id} is still running", "RUN")
        if record.status == DAMAGED and ENVIRONMENT in record.damaged_files:
            raise BadInput(f"run {record.id} cannot be deleted: {record.reason}; remove its folder by hand", "RUN")
        try:
            _remove(record.path)
        except OSError as error:
            raise BadInput(f"run {record.id} cannot be deleted: {error.strerror}", "RUN") from None
        with suppress(BadInput):
            self.index.update((), [record.id])
        return record.id

    def _new_directory(self, name: str) -> Path:
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "run"
        self.root.mkdir(parents=True, exist_ok=True)
        while True:
            path = self.root / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{slug}"
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path


def _remove(path: Path) -> None:
    """Removes a run's directory. Raises BadInput where something else than its own files is in it, and OSError."""
    with _opened(path.parent) as store, _opened(path.name, store) as folder:
        names = os.listdir(folder)
        ours = [name for name in names if name in _FILES or BESIDE.fullmatch(name)]
        others = [name for name in names if name not in ours or not _is_file(name, folder)]
        if others:
            first = f"{sorted(others)[0]!r}" + (f" and {len(others) - 1} more" if others[1:] else "")
            raise BadInput(f"run {path.name} holds {first}, which Lockstep did not write; move it away first", "RUN")
        # First what makes it a run, so that a half-removed one is none.
        for name in sorted(names, key=lambda name: name != CONFIG):
            os.unlink(name, dir_fd=folder)
        os.rmdir(path.name, dir_fd=store)


@contextmanager
def _opened(folder: str | Path, inside: int | None = None) -> Iterator[int]:
    """A descriptor of a folder; of one inside another only if it is no link."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | (0 if inside is None else os.O_NOFOLLOW), dir_fd=inside)
    try:
        yield handle
    finally:
        os.close(handle)


def _is_file(name: str, folder: int) -> bool:
    return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _environment() -> Json:
    pid = os.getpid()
    return {
        "lockstep": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "pid": pid,
        "pid_started": started(pid),
        "started_s": time.time(),
    }
