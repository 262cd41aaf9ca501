"""The checkpoint that all ranks go on from: rank 0 names generations, newest first, until every rank can read one.

Ranks that chose for themselves could go on from different steps: one sees a generation that another has not got, or
cannot read.
"""

from __future__ import annotations

from pathlib import Path

from lockstep.errors import BadInput
from lockstep.measure.checkpoint.files import MANIFEST, checksum, folders
from lockstep.measure.checkpoint.reader import Checkpoint, Unusable, read_generation


def latest_for_all(root: Path) -> Checkpoint | None:
    """As `latest`, the same generation on every rank; all ranks of the default process group call it together.

    Raises BadInput, on all ranks alike, when there are some and none can be used by all.
    """
    import torch.distributed as dist

    names = [[folder.name for folder in reversed(folders(root))]]
    dist.broadcast_object_list(names, src=0)
    passed_over: list[str] = []
    for name in names[0]:
        seen, why = _seen(root / name, tuple(passed_over))
        answers: list[tuple[str, str]] = [("", "")] * dist.get_world_size()
        dist.all_gather_object(answers, ("" if seen is None else checksum(seen.folder / MANIFEST), why))
        objection = _objection(answers, root / name)
        if not objection:
            return seen
        passed_over.append(objection)
    if passed_over:
        raise BadInput("no checkpoint can be used: " + "; ".join(passed_over), str(root))
    return None


def _seen(folder: Path, passed_over: tuple[str, ...]) -> tuple[Checkpoint | None, str]:
    """The generation as this rank reads it, or why it cannot."""
    try:
        return read_generation(folder, passed_over), ""
    except Unusable as error:
        return None, str(error)


def _objection(answers: list[tuple[str, str]], folder: Path) -> str:
    """Why not all ranks can use a generation, by (checksum of its manifest, why not) of each; empty when they can."""
    for rank, (_, why) in enumerate(answers):
        if why:
            return why if len(set(answers)) == 1 else f"{why}, as rank {rank} sees it"
    if len(set(answers)) > 1:
        return f"{folder.name} is not the same on all ranks"
    return ""
