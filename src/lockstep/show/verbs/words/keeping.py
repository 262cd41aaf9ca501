"""Keeping a real run in the store while it runs, when the user has named a place for runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.base.errors import RunFailed
from lockstep.base.records import dataclass
from lockstep.show.verbs.words.question import named_folder

if TYPE_CHECKING:
    from lockstep.base.store import EventFile, RunWriter


@dataclass(slots=True)
class Record:
    """Takes events of a run and, at its end, `result`; into the store or nowhere."""

    writer: RunWriter | None
    curves: EventFile | None = None
    result: Mapping[str, object] | None = None
    failure: str = ""
    """Why a run that has an answer all the same has failed, such as a sweep that ended early."""
    events: int = 0

    def __call__(self, **values: object) -> None:
        """Keeps one event."""
        self.events += 1
        if self.writer is not None:
            self.writer.record(**values)
        if self.curves is not None:
            self.curves.event(values, self.events)


@contextmanager
def kept(
    verb: str, words: Mapping[str, object], root: str | Path | None, tensorboard: Path | None = None
) -> Iterator[Record]:
    """A record under `root`, else under $LOCKSTEP_RUNS, else nowhere. An exception inside is why the run failed.

    `tensorboard`: a folder for its events as TensorBoard reads them. Of the ranks that torchrun or Slurm started only
    the first keeps the run. Raises BadInput where nothing can be written before the run, RunFailed where nothing can
    any more, as on a disk that is full: the run ends there.
    """
    from lockstep.base.store import EventFile, NotRecorded, RunStore
    from lockstep.base.store.store import VARIABLE
    from lockstep.run.launch.place import place

    where = os.environ.get(VARIABLE) if root is None else named_folder(root, "--runs")
    here = place()
    if here is not None and here.rank:
        yield Record(None)
        return
    try:
        with ExitStack() as open_files:
            curves = None if tensorboard is None else open_files.enter_context(EventFile(tensorboard))
            writer = open_files.enter_context(RunStore(Path(where)).start(verb, words)) if where else None
            record = Record(writer, curves)
            yield record
            if writer is not None and record.failure:
                writer.fail(record.failure)
            elif writer is not None and record.result is not None:
                writer.finish(record.result)
    except NotRecorded as error:
        raise RunFailed(str(error)) from None
