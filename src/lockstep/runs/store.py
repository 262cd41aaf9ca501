"""`RunStore`: the runs under one folder; start one, read one, list all, rebuild the index."""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lockstep.errors import BadInput, suggestion
from lockstep.runs.files import write_whole
from lockstep.runs.index import Index, Row, row_of
from lockstep.runs.process import started
from lockstep.runs.record import CONFIG, ENVIRONMENT, RUNNING, SCHEMA, Record, read_record
from lockstep.runs.writer import RunWriter

VARIABLE = "LOCKSTEP_RUNS"
LAST = "last"


def default_root() -> Path:
    """$LOCKSTEP_RUNS, else the folder `runs` here."""
    return Path(os.environ.get(VARIABLE) or "runs")


class RunStore:
    """Runs as directories `<start, UTC>-<slug>` under `root`, which is made with the first run."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = default_root() if root is None else root
        self.index = Index(self.root / "index.sqlite")

    def start(
        self, verb: str, words: Mapping[str, Any], label: str = "", environment: Mapping[str, Any] | None = None
    ) -> RunWriter:
        """A new run of `verb` asked with `words` (plain JSON). `environment` is added to what is noted of the machine.

        Raises BadInput where the folder cannot be written.
        """
        try:
            path = self._new_directory(label or verb)
            write_whole(path / ENVIRONMENT, _environment() | dict(environment or {}))
            # Last: a directory without it is no run yet.
            write_whole(path / CONFIG, {"schema": SCHEMA, "verb": verb, "label": label, "words": dict(words)})
        except OSError as error:
            raise BadInput(f"cannot keep runs in {self.root}: {error.strerror}", "--runs") from None
        return RunWriter(path)

    def read(self, name: str) -> Record:
        """The run of that id, of the only id that begins or ends so, or the `last` one. Raises BadInput."""
        ids = self.ids()
        if not ids:
            raise BadInput(f"there are no runs in {self.root}", "RUN")
        found = [ids[-1]] if name == LAST else [one for one in ids if one == name]
        found = found or [one for one in ids if one.startswith(name) or one.endswith(name)]
        if len(found) != 1:
            why = f"is the beginning or end of {len(found)} runs" if found else "is no run"
            raise BadInput(f"{name!r} {why}; {suggestion(name, found or ids)}", "RUN")
        record = read_record(self.root / found[0])
        if record is None:
            raise BadInput(f"run {found[0]} has no readable {CONFIG}", "RUN")
        return record

    def ids(self) -> list[str]:
        """Names of all runs, oldest first."""
        if not self.root.is_dir():
            return []
        return sorted(path.parent.name for path in self.root.glob(f"*/{CONFIG}"))

    def rows(self) -> list[Row]:
        """All runs, oldest first; the index is brought up to date with the directories on the way."""
        if not self.ids() and not self.index.path.exists():
            return []
        read, gone = self.index.stale(self.ids())
        records = [record for name in read if (record := read_record(self.root / name)) is not None]
        if records:
            self.index.put(row_of(record) for record in records)
        if gone:
            self.index.drop(gone)
        return list(self.index.rows().values())

    def reindex(self) -> int:
        """Builds the index anew from the directories; returns the number of runs."""
        if self.root.is_dir():
            self.index.remove()
        return len(self.rows())

    def delete(self, name: str) -> str:
        """Removes a run that has ended; returns its id. Raises BadInput."""
        record = self.read(name)
        if record.status == RUNNING:
            raise BadInput(f"run {record.id} is still running", "RUN")
        # First what makes it a run, so that a half-removed one is none.
        (record.path / CONFIG).unlink()
        shutil.rmtree(record.path)
        self.index.drop([record.id])
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


def _environment() -> dict[str, Any]:
    pid = os.getpid()
    return {
        "lockstep": version("lockstep"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "pid": pid,
        "pid_started": started(pid),
        "started_s": time.time(),
    }
