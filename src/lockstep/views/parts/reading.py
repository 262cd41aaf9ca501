"""What has to be known to read the numbers of an answer: what its MFU counts, and what the answer leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.units import format_frac

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from lockstep.layout import Job
    from lockstep.planner.utilisation import Utilisation


def mfu_column(several: Sequence[Utilisation]) -> tuple[str, list[str]]:
    """A note on a column of MFUs, empty where none is needed, and its cells.

    The note says what all of them count; where they count different things, each cell says what its own does.
    """
    names = {one.name for one in several}
    if len(names) > 1:
        return "", [one.marked for one in several]
    return "".join(names - {"MFU"}), [format_frac(one.mfu_frac) for one in several]


def notes(*several: str) -> str:
    """Notes on a table as one, without those that are empty."""
    return "; ".join(filter(None, several))


def left_out(job: Job, out: Console) -> None:
    """Prints what an answer does not count of this job, where that is more than of any."""
    from lockstep.planner import said_not_counted

    warn(said_not_counted(job), out)


def warn(said: str, out: Console) -> None:
    """Prints a sentence that must not be overlooked; nothing where it is empty."""
    if said:
        out.print(Text(said, style="yellow"))
