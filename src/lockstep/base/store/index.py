"""The index: one row per run for fast lists. Never the truth: that is in the directories.

Whatever is wrong with it, lists are as long and as right without it: a store that cannot be written has none.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.store.record import STATUSES, Record
from lockstep.base.types.plain import Json, picked

COLUMNS = ("id", "verb", "label", "status", "reason", "started_s", "ended_s", "events")
BUSY_MS = 10_000


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the list."""

    id: str
    verb: str
    label: str
    status: str
    reason: str
    started_s: float
    ended_s: float | None
    events: int

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)

    def is_sound(self) -> bool:
        """Whether it is of the types that it should be; a database holds anything in any column."""
        texts = (self.id, self.verb, self.label, self.status, self.reason)
        times = (self.started_s, 0.0 if self.ended_s is None else self.ended_s)
        right = all(type(one) is str for one in texts) and all(type(one) is float for one in times)
        return right and type(self.events) is int and self.status in STATUSES


def row_of(record: Record) -> Row:
    """The line of a run."""
    return Row(
        record.id, record.verb, record.label, record.status, record.reason, record.started_s, record.ended_s,
        len(record.measurements),
    )  # fmt: skip


class Index:
    """`index.sqlite` of a store."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self) -> dict[str, Row]:
        """All rows by id that can be read; none where there is no index of ours."""
        if not os.path.lexists(self.path):
            return {}
        try:
            with self._open() as base:
                found = [Row(*row) for row in base.execute(f"SELECT {','.join(COLUMNS)} FROM runs")]
        except (sqlite3.Error, BadInput, OSError):
            return {}
        return {row.id: row for row in found if row.is_sound()}

    def update(self, rows: Iterable[Row], gone: Iterable[str] = ()) -> None:
        """Adds or replaces `rows`, and removes those of the ids `gone`; a file that is no database is begun anew.

        Raises BadInput where that cannot be done.
        """
        values, ids = [tuple(row.to_dict().values()) for row in rows], [(name,) for name in gone]
        try:
            try:
                self._change(values, ids)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                self.remove()
                self._change(values, ids)
        except (sqlite3.Error, OSError) as error:
            raise BadInput(f"the index cannot be written: {error}", str(self.path)) from None

    def remove(self) -> None:
        """Deletes the file and what SQLite keeps beside it. Raises BadInput where it is not ours, or cannot be."""
        if not os.path.lexists(self.path):
            return
        try:
            with self._open():
                pass
        except sqlite3.Error:
            # It is no database, or a damaged one.
            pass
        try:
            for name in ("", "-journal", "-wal", "-shm"):
                Path(f"{self.path}{name}").unlink(missing_ok=True)
        except OSError as error:
            raise BadInput(f"the index cannot be removed: {error.strerror}", str(self.path)) from None

    def _change(self, rows: list[tuple[object, ...]], gone: list[tuple[str]]) -> None:
        marks = ",".join("?" * len(COLUMNS))
        with self._open() as base, base:
            known = tuple(row[1] for row in base.execute("PRAGMA table_info(runs)"))
            if known not in ((), COLUMNS):
                base.execute("DROP TABLE runs")
            base.execute(
                "CREATE TABLE IF NOT EXISTS runs (id TEXT PRIMARY KEY, verb TEXT, label TEXT, status TEXT, "
                "reason TEXT, started_s REAL, ended_s REAL, events INTEGER)"
            )
            base.executemany(f"INSERT OR REPLACE INTO runs VALUES ({marks})", rows)
            base.executemany("DELETE FROM runs WHERE id = ?", gone)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The database. Raises BadInput for a file that this program has not made: it is left as it is."""
        if os.path.lexists(self.path) and not stat.S_ISREG(self.path.lstat().st_mode):
            raise BadInput("is not a file; move it away, its name is that of the index of runs", str(self.path))
        with closing(sqlite3.connect(self.path, timeout=BUSY_MS / 1000)) as base:
            tables = {row[0] for row in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if tables - {"runs"}:
                raise BadInput("is another program's database; move it away to have an index of runs", str(self.path))
            yield base
