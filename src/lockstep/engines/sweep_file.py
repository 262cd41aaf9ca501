"""`SweepFile`: the answers of a sweep in one SQLite file, appended as they come.

    sweep    name, value        what is asked: verb, words, number of questions, versions, when it began
    answers  key, answer        packed answers by the key of their question
In WAL mode a reader sees whole batches while they are written, and a writer that is killed loses none that it had
committed. Answers are committed at most a fifth of a second after they came. The file is read as data: nothing in it is
run.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from lockstep.errors import BadInput
from lockstep.store.files import canonical
from lockstep.types.plain import Json

FORMAT = 1
COMMIT_S = 0.2
BUSY_S, READ_S = 30.0, 2.0
"""Longest wait of a writer and of a reader for who holds the file."""
TABLES = """
CREATE TABLE IF NOT EXISTS sweep (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, answer BLOB NOT NULL) WITHOUT ROWID;
"""
BESIDE = ("-wal", "-shm")
"""Endings of the files that SQLite keeps beside one that is open."""


class SweepFile:
    """One file; a context, at whose end everything is on the disk."""

    def __init__(self, path: Path, *, writes: bool = True) -> None:
        """Opens `path`, or makes it where it `writes`. Raises BadInput for what is not such a file."""
        self.path, self._writes, self._committed_s = path, writes, time.monotonic()
        if not writes and not path.is_file():
            raise BadInput(f"no sweep is kept in {str(path)!r}", "SWEEP")
        with self._located():
            self._base = sqlite3.connect(path, timeout=BUSY_S if writes else READ_S, check_same_thread=False)
            if writes:
                # A reader of a file on a disk that it may not write uses the mode that is there.
                self._base.execute("PRAGMA journal_mode = WAL")
                self._base.execute("PRAGMA synchronous = NORMAL")
                self._base.executescript(TABLES)
            found = self.about
            if found.get("format", FORMAT) != FORMAT:
                raise BadInput(f"{str(path)!r} has format {found['format']}; this version reads {FORMAT}", "--store")

    @property
    def about(self) -> Json:
        """What is asked, by name; empty in a new file."""
        with self._located():
            return {name: json.loads(value) for name, value in self._base.execute("SELECT name, value FROM sweep")}

    def begin(self, about: Json) -> None:
        """Writes what is asked; a reader changes nothing."""
        if not self._writes:
            return
        rows = [(name, canonical(value)) for name, value in {"format": FORMAT, **about}.items()]
        with self._located(), self._base:
            self._base.executemany("INSERT OR REPLACE INTO sweep VALUES (?, ?)", rows)

    def answer(self, key: bytes) -> bytes | None:
        """The packed answer with that key, if it is there."""
        with self._located():
            found = self._base.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        return None if found is None else bytes(found[0])

    def add(self, answers: Iterable[tuple[bytes, bytes]]) -> None:
        """Appends answers; one that is there already stays as it is."""
        with self._located():
            self._base.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?)", answers)
        if time.monotonic() - self._committed_s >= COMMIT_S:
            self.commit()

    def commit(self) -> None:
        """Everything so far survives this process."""
        with self._located():
            self._base.commit()
        self._committed_s = time.monotonic()

    def __len__(self) -> int:
        with self._located():
            return int(self._base.execute("SELECT count(*) FROM answers").fetchone()[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(sqlite3.Error):
            self._base.commit()
        self._base.close()

    @contextmanager
    def _located(self) -> Iterator[None]:
        where = "--store" if self._writes else "SWEEP"
        try:
            yield
        except sqlite3.OperationalError as error:
            raise BadInput(f"answers cannot be kept in {str(self.path)!r}: {error}", where) from None
        except BadInput:
            raise
        except (sqlite3.Error, ValueError) as error:
            raise BadInput(f"{str(self.path)!r} is not a file of answers: {error}", where) from None


def delete(path: Path) -> None:
    """Removes the file of a sweep, and what SQLite keeps beside it. Raises BadInput for another kind of file."""
    with SweepFile(path, writes=False) as found:
        if "verb" not in found.about:
            raise BadInput(f"{str(path)!r} is not a sweep", "SWEEP")
    try:
        for name in (path, *(path.with_name(path.name + ending) for ending in BESIDE)):
            name.unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"{str(path)!r} cannot be deleted: {error.strerror}", "SWEEP") from None
