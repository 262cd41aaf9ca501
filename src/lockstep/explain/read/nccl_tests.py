"""Output of nccl-tests, the OSU micro-benchmarks and `lockstep bench`: times of collectives, read as by `fit`."""

from __future__ import annotations

from lockstep.base.documents.files import File
from lockstep.base.errors import BadInput
from lockstep.explain.read import LINKS, Kind, register
from lockstep.explain.read.file import Head
from lockstep.run.fit import read_series
from lockstep.run.fit.points import Points
from lockstep.run.fit.read import is_times


def read(path: File) -> tuple[Points, ...]:
    """The times of each collective. Raises BadInput with the line, and at the file where its ranks are unknown."""
    try:
        return read_series(path)
    except BadInput as error:
        if (error.where or "").startswith("--"):
            raise BadInput(f"{error.message}; keep its first lines, or use lockstep fit", str(path)) from None
        raise


def _recognise(begun: Head) -> bool:
    return is_times(begun.text)


KIND = register(Kind("nccl-tests", "output of nccl-tests or of the OSU micro-benchmarks", LINKS, _recognise, read, 3))
