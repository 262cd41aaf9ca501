"""An execution trace of PyTorch (`ExecutionTraceObserver`; Chakra): operators with shapes and no times.

It is recognised to say so, as it often lies beside the profiler's trace, which has the times.
"""

from __future__ import annotations

import re
from typing import Never

from lockstep.base.documents.files import File
from lockstep.base.errors import BadInput
from lockstep.explain.read import TRACE, Kind, register
from lockstep.explain.read.file import Head

SCHEMA = re.compile(rb'"schema"\s*:\s*"[\d.]+-chakra')
"""The head of a file; as PyTorch writes it, `"schema": "1.1.1-chakra.0.0.4"`."""


def read_execution_trace(path: File) -> Never:
    """Raises BadInput: what to give instead."""
    raise BadInput(
        "is an execution trace (Chakra), which says what ran and not when; leave it out, and give the trace of "
        "torch.profiler of the same steps, recorded with record_shapes=True for the shapes that this one has",
        str(path),
    )


def _recognise(begun: Head) -> bool:
    return SCHEMA.search(begun.data) is not None


KIND = register(Kind("execution-trace", "an execution trace of PyTorch", TRACE, _recognise, read_execution_trace))
