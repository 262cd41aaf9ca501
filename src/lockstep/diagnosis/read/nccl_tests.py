"""Output of nccl-tests, the OSU micro-benchmarks and `lockstep bench`: times of collectives, read as by `fit`."""

from __future__ import annotations

import re

from lockstep.diagnosis.read import LINKS, Kind, register
from lockstep.diagnosis.read.file import Head
from lockstep.documents.files import File
from lockstep.errors import BadInput
from lockstep.measure.fit import read_points
from lockstep.measure.fit.points import Points
from lockstep.measure.fit.read import unlabelled

SIGN = re.compile(r"^#\s+size\s+count\s+type|^# OSU|^op,algorithm,", re.MULTILINE)


def read(path: File) -> Points:
    """The times. Raises BadInput with the line; of a file without its number of ranks, at the file."""
    try:
        return read_points(path)
    except BadInput as error:
        if (error.where or "").startswith("--"):
            raise BadInput(f"{error.message}; keep its first lines, or use lockstep fit", str(path)) from None
        raise


def _recognise(begun: Head) -> bool:
    return SIGN.search(unlabelled(begun.text)) is not None


KIND = register(Kind("nccl-tests", "output of nccl-tests or of the OSU micro-benchmarks", LINKS, _recognise, read, 3))
