"""What has to be known to read the numbers of an answer: what its MFU counts, and what the answer leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_frac

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from lockstep.decide.planner.utilisation import Utilisation
    from lockstep.price.layout import Job

PART_WORDS = {
    "compute": "compute",
    "tp_comm": "tensor-parallel traffic",
    "pp_comm": "pipeline sends",
    "dp_comm": "data-parallel traffic",
    "ep_comm": "expert traffic",
    "cp_comm": "context-parallel traffic",
    "host_comm": "traffic with the host",
    "bubble": "pipeline bubble",
    "waiting": "waits for slower devices",
    "optimizer": "optimizer",
    "other": "other",
    "generation": "generation",
}
BINDS = PART_WORDS | {"host": "the time of the host, which launches kernels"}
"""Parts of a step as a person says them, and what binds it."""


def mfu_column(several: Sequence[Utilisation]) -> tuple[str, list[str]]:
    """A note on a column of MFUs, empty where none is needed, and its cells.

    The note says what all of them count, each cell what others count differently.
    """
    kinds = list(zip(*((one.peak, one.counted) for one in several), strict=True))
    shared = "; ".join(filter(None, (said[0] for said in kinds if len(set(said)) == 1)))
    own = zip(*(said for said in kinds if len(set(said)) > 1), strict=True)
    cells = [format_frac(one.mfu_frac) for one in several]
    marks = ["; ".join(filter(None, said)) for said in own] or [""] * len(cells)
    return _marked("MFU", shared) if shared else "", list(map(_marked, cells, marks))


def _marked(what: str, note: str) -> str:
    return f"{what} ({note})" if note else what


def notes(*several: str) -> str:
    """Notes on a table as one, without those that are empty."""
    return "; ".join(filter(None, several))


def left_out(job: Job, out: Console) -> None:
    """Prints what an answer does not count of this job, where that is more than of any."""
    from lockstep.decide.planner.uncounted import said_not_counted

    warn(said_not_counted(job), out)


def warn(said: str, out: Console) -> None:
    """Prints a sentence that must not be overlooked; nothing where it is empty."""
    if said:
        out.print(Text(said, style="yellow"))
