"""Reading checkpoints: the newest one that is whole, and why newer ones were passed over."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lockstep.errors import BadInput
from lockstep.measure.checkpoint.files import MANIFEST, PREFIX, checksum, data_file
from lockstep.measure.checkpoint.part import REPLICATED, SHARDED, Array, Part, assembled
from lockstep.runs.files import read_whole


class Unusable(BadInput):
    """A checkpoint whose files are not what its manifest says."""


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A whole, checked checkpoint."""

    folder: Path
    step: int
    ranks: int
    words: Mapping[str, Any]
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
    """(step, folder) of all committed checkpoints, oldest first."""
    if not root.is_dir():
        return []
    found = [path.parent for path in root.glob(f"{PREFIX}*/{MANIFEST}")]
    return sorted((int(path.name.removeprefix(PREFIX)), path) for path in found)


def latest(root: Path) -> Checkpoint | None:
    """The newest checkpoint that is whole, which says what was wrong with newer ones; None when there is none.

    Raises BadInput when there are some and none can be used.
    """
    passed_over: list[str] = []
    for _, folder in reversed(generations(root)):
        try:
            return read_generation(folder, tuple(passed_over))
        except Unusable as error:
            passed_over.append(str(error))
    if passed_over:
        raise BadInput("no checkpoint can be used: " + "; ".join(passed_over), str(root))
    return None


def read_generation(folder: Path, passed_over: tuple[str, ...] = ()) -> Checkpoint:
    """The checkpoint in a folder; `passed_over` says why newer ones are not used. Raises Unusable."""
    manifest = read_whole(folder / MANIFEST)
    if not isinstance(manifest, dict):
        raise Unusable(f"{folder.name}: its manifest is damaged")
    parts: dict[str, list[Part]] = {}
    for rank, note in enumerate(manifest["files"]):
        for part in _parts(data_file(folder, rank), note):
            parts.setdefault(part.name, []).append(part)
    return Checkpoint(
        folder, manifest["step"], manifest["ranks"], manifest["words"],
        {name: tuple(found) for name, found in parts.items()}, passed_over,
    )  # fmt: skip


def _parts(path: Path, note: Mapping[str, Any]) -> list[Part]:
    """The parts of one rank's file, checked."""
    where = f"{path.parent.name}: {path.name}"
    if not path.exists():
        raise Unusable(f"{where} is missing")
    if checksum(path) != note["checksum"]:
        raise Unusable(f"{where} is damaged: {path.stat().st_size} bytes with another checksum than noted")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return [Part(name, arrays[name], **about) for name, about in note["parts"].items()]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise Unusable(f"{where} cannot be read: {error}") from None
