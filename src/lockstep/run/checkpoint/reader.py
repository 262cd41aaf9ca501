"""Reading checkpoints: the newest one that is whole, and why newer ones were passed over.

All ranks go on from the same one (`latest_for_all`): rank 0 names generations, newest first, until every rank can read
one. Ranks that chose for themselves could go on from different steps: one sees a generation that another has not got,
or cannot read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lockstep.base.documents.files import open_file
from lockstep.base.errors import BadInput
from lockstep.base.records import asdict, dataclass
from lockstep.base.types.arrays import Array
from lockstep.run.checkpoint.manifest import (
    MANIFEST,
    REPLICATED,
    SHARDED,
    Manifest,
    Note,
    Part,
    Unsealed,
    assembled,
    checksum,
    data_file,
    folder_of,
    folders,
)


class Unusable(BadInput):
    """A checkpoint whose files are not what its manifest says."""


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A whole, checked checkpoint."""

    folder: Path
    step: int
    ranks: int
    words: Mapping[str, object]
    parts: Mapping[str, tuple[Part, ...]]
    """By name, the parts that ranks kept under it, by rank."""
    passed_over: tuple[str, ...] = ()
    """Newer ones that could not be used, and why."""

    def array(self, name: str, rank: int = 0, ranks: int | None = None) -> Array:
        """The array of that name for `rank` of `ranks` (as many as saved, unless given).

        Replicated ones are the same for all, sharded ones come whole. Raises BadInput for one that belongs to a single
        rank when the number of ranks differs.
        """
        if name not in self.parts:
            raise BadInput(f"{self.folder} holds no {name!r}, but {', '.join(sorted(self.parts))}")
        parts = self.parts[name]
        if parts[0].kind == REPLICATED:
            return parts[0].array
        if parts[0].kind == SHARDED:
            return assembled(name, list(parts))
        if ranks not in (None, self.ranks):
            raise BadInput(
                f"{name} of {self.folder.name} belongs to each of {self.ranks} ranks; {ranks} ranks cannot resume it"
            )
        return parts[rank].array


def generations(root: Path) -> list[tuple[int, Path]]:
    """(step, folder) of all committed checkpoints under their own names, oldest first. Raises BadInput."""
    named = [(_step(folder), folder) for folder in folders(root)]
    return [(step, folder) for step, folder in named if step is not None]


def _step(folder: Path) -> int | None:
    """The step that a folder of ours is named for."""
    _, _, text = folder.name.partition("-")
    step = int(text) if text.isdecimal() and text.isascii() else None
    return step if step is not None and folder.name == folder_of(folder.parent, step).name else None


def latest(root: Path) -> Checkpoint | None:
    """The newest checkpoint that is whole, which says what was wrong with newer ones; None when there is none.

    Raises BadInput when there are some and none can be used.
    """
    passed_over: list[str] = []
    for folder in reversed(folders(root)):
        try:
            return read_generation(folder, tuple(passed_over))
        except Unusable as error:
            passed_over.append(str(error))
    if passed_over:
        raise BadInput("no checkpoint can be used: " + "; ".join(passed_over), str(root))
    return None


def read_generation(folder: Path, passed_over: tuple[str, ...] = ()) -> Checkpoint:
    """The checkpoint in a folder; `passed_over` says why newer ones are not used. Raises Unusable."""
    try:
        manifest = Manifest.read(folder)
    except Unsealed as error:
        raise Unusable(f"{folder.name}: its manifest {error.message}") from None
    parts: dict[str, list[Part]] = {}
    for rank, note in enumerate(manifest.notes):
        for part in _parts(data_file(folder, rank), note):
            parts.setdefault(part.name, []).append(part)
    for name, found in parts.items():
        if len({(part.kind, part.total) for part in found}) > 1:
            raise Unusable(f"{folder.name}: the ranks kept {name!r} in different ways")
    return Checkpoint(
        folder, manifest.step, len(manifest.notes), manifest.words,
        {name: tuple(found) for name, found in parts.items()}, passed_over,
    )  # fmt: skip


def _parts(path: Path, note: Note) -> list[Part]:
    """The parts of one rank's file, checked."""
    where = f"{path.parent.name}: {path.name}"
    if not os.path.exists(path):
        raise Unusable(f"{where} is missing")
    try:
        with open_file(path) as file:
            size_B = file.seek(0, 2)
        if size_B != note.size_B or checksum(path) != note.file_checksum:
            raise Unusable(f"{where} is damaged: {size_B} bytes with another checksum than noted")
        with np.load(path, allow_pickle=False) as arrays:
            return [Part(name, arrays[name], **asdict(about)) for name, about in note.parts.items()]
    except Unusable:
        raise
    # What is noted is on the disk; numpy and zipfile raise a dozen kinds for files that nobody here has written.
    except Exception as error:
        raise Unusable(f"{where} cannot be read: {getattr(error, 'message', error)}") from None


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
