"""Profiles of ranks: `Profiling` records some steps of a rank with torch.profiler, `annotated` names what it sends.

A profile is one file per rank, `rank3.json.gz`, as `lockstep diagnose` and Perfetto read it. Steps are annotated
`ProfilerStep#N`; exchanges `lockstep:GROUP:OPERATION:BYTES:NUMBER`, as traces of gloo do not say their group; a
computation that torch does not see, as one that sleeps, is the operator `lockstep::NAME` (`computing`). The first steps
are left out, in which threads and connections start, and after `MOST_STEPS` the profiler stops: it costs time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lockstep.base.errors import BadInput

WARM_UP = 2
MOST_STEPS = 12
PROFILE = "rank{}.json.gz"
"""The file of a rank."""
ALL = "all"
"""The group of all ranks."""


class Profiling:
    """The profile of one rank, written when the last of its steps has ended; of no rank where no folder is given."""

    def __init__(self, folder: str | Path | None, rank: int) -> None:
        self.folder, self.rank = folder, rank
        self.seen = 0
        self._open = ExitStack()
        self._profiler: Any = None

    def step(self, number: int) -> None:
        """Step `number` begins, and the one before it has ended."""
        if self.folder is None:
            return
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        from torch.profiler import ProfilerActivity, profile, record_function

        self.end()
        self.seen += 1
        if self.seen > WARM_UP + MOST_STEPS:
            self._write()
        elif self.seen > WARM_UP:
            if self._profiler is None:
                self._profiler = profile(activities=[ProfilerActivity.CPU], experimental_config=_all_threads())
                self._profiler.__enter__()
            self._open.enter_context(record_function(f"ProfilerStep#{number}"))

    def end(self) -> None:
        """The step has ended; what comes until the next one is of no step."""
        self._open.close()

    def close(self) -> None:
        """The last step has ended."""
        self.end()
        self._write()

    def _write(self) -> None:
        if self._profiler is not None:
            self._profiler.__exit__(None, None, None)
            self._profiler.export_chrome_trace(str(Path(str(self.folder)) / PROFILE.format(self.rank)))
        self._profiler, self.folder = None, None


def _all_threads() -> Any:
    """The setting by which the profiler sees threads that exchange while the main one computes; None in older torch."""
    from torch._C._profiler import _ExperimentalConfig

    try:
        return _ExperimentalConfig(profile_all_threads=True)
    except TypeError:
        return None


@contextmanager
def annotated(op: str, size_B: float, number: int, group: str = ALL) -> Iterator[None]:
    """Names an exchange in a profile."""
    from torch.profiler import record_function

    with record_function(f"lockstep:{group}:{op}:{size_B:.0f}:{number}"):
        yield


@contextmanager
def computing(name: str) -> Iterator[None]:
    """Names a computation in a profile."""
    from torch._C._profiler import _RecordFunctionFast

    with _RecordFunctionFast(f"lockstep::{name}"):
        yield


def profile_folder(path: str | Path | None, where: str) -> Path | None:
    """The folder of profiles, made if there is none. Raises BadInput at `where` where it cannot be."""
    if path is None:
        return None
    found = Path(path)
    try:
        found.mkdir(exist_ok=True)
    except OSError as error:
        raise BadInput(f"{str(path)!r} cannot be made a folder: {error.strerror}", where) from None
    return found.resolve()
