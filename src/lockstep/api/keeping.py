"""Keeping a real run in the store while it runs, when the user has named a place for runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lockstep.runs import RunWriter


@dataclass(slots=True)
class Record:
    """Takes events of a run and, at its end, `result`; into the store or nowhere."""

    writer: RunWriter | None
    result: Mapping[str, Any] | None = None
    failure: str = ""
    """Why a run that has an answer all the same has failed, such as a sweep that ended early."""

    def __call__(self, **values: Any) -> None:
        """Keeps one event."""
        if self.writer is not None:
            self.writer.record(**values)


@contextmanager
def kept(verb: str, words: Mapping[str, Any], root: str | Path | None) -> Iterator[Record]:
    """A record under `root`, else under $LOCKSTEP_RUNS, else nowhere. An exception inside is why the run failed.

    Of the ranks that torchrun or Slurm started only the first keeps the run.
    """
    from lockstep.measure.launch.place import place
    from lockstep.runs import RunStore
    from lockstep.runs.store import VARIABLE

    where, here = root or os.environ.get(VARIABLE), place()
    if not where or (here is not None and here.rank):
        yield Record(None)
        return
    with RunStore(Path(where)).start(verb, words) as writer:
        record = Record(writer)
        yield record
        if record.failure:
            writer.fail(record.failure)
        elif record.result is not None:
            writer.finish(record.result)
