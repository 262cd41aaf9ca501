"""The index: one row per run for fast lists. Never the truth: that is in the directories."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lockstep.runs.record import RUNNING, Record

Answer = TypeVar("Answer")
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

    def to_dict(self) -> dict[str, object]:
        """Plain JSON form."""
        return {name: getattr(self, name) for name in COLUMNS}


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

    def put(self, rows: Iterable[Row]) -> None:
        """Adds rows, or replaces those of the same id."""
        marks = ",".join("?" * len(COLUMNS))
        values = [tuple(row.to_dict().values()) for row in rows]
        self._safely(lambda base: base.executemany(f"INSERT OR REPLACE INTO runs VALUES ({marks})", values))

    def drop(self, ids: Iterable[str]) -> None:
        """Removes rows."""
        gone = [(name,) for name in ids]
        self._safely(lambda base: base.executemany("DELETE FROM runs WHERE id = ?", gone))

    def rows(self) -> dict[str, Row]:
        """All rows by id, oldest first."""
        query = f"SELECT {','.join(COLUMNS)} FROM runs ORDER BY started_s, id"
        found = self._safely(lambda base: base.execute(query).fetchall())
        return {row[0]: Row(*row) for row in found}

    def stale(self, ids: Iterable[str]) -> tuple[list[str], list[str]]:
        """(runs whose row is missing or may have changed, rows without a run) of the runs `ids` that exist."""
        known, there = self.rows(), set(ids)
        read = [name for name in sorted(there) if name not in known or known[name].status == RUNNING]
        return read, sorted(set(known) - there)

    def remove(self) -> None:
        """Deletes the file and what SQLite keeps beside it."""
        for name in ("", "-wal", "-shm"):
            Path(f"{self.path}{name}").unlink(missing_ok=True)

    def _safely(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Does `work` in one transaction; a file that is no database is begun anew."""
        try:
            with self._open() as base:
                return work(base)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            self.remove()
            with self._open() as base:
                return work(base)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=BUSY_MS / 1000)) as base:
            base.execute("PRAGMA journal_mode = WAL")
            base.execute("PRAGMA synchronous = NORMAL")
            base.execute(
                "CREATE TABLE IF NOT EXISTS runs (id TEXT PRIMARY KEY, verb TEXT, label TEXT, status TEXT, "
                "reason TEXT, started_s REAL, ended_s REAL, events INTEGER)"
            )
            with base:
                yield base
