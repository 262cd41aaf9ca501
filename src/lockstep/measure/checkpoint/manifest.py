"""`Manifest`: what makes the files of the ranks one checkpoint, and what is checked of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockstep.measure.checkpoint.files import MANIFEST, folder_of
from lockstep.measure.checkpoint.part import KINDS
from lockstep.measure.checkpoint.sealed import Unsealed, read_sealed, write_sealed


@dataclass(frozen=True, slots=True)
class About:
    """How a rank keeps a part; see `Part`."""

    kind: str
    start: int
    total: int


@dataclass(frozen=True, slots=True)
class Note:
    """What a rank says of its file once it is on the disk."""

    attempt: str
    size_B: int
    file_checksum: str
    parts: Mapping[str, About]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        parts = {name: {"kind": one.kind, "start": one.start, "total": one.total} for name, one in self.parts.items()}
        return {"attempt": self.attempt, "size_B": self.size_B, "file_checksum": self.file_checksum, "parts": parts}

    @classmethod
    def of(cls, value: Any) -> Note:
        """The note in plain JSON. Raises Unsealed for one that no rank writes."""
        given = _fields(value, attempt=str, size_B=int, file_checksum=str, parts=dict)
        abouts = {name: About(**_fields(one, kind=str, start=int, total=int)) for name, one in given["parts"].items()}
        for name, one in abouts.items():
            if one.kind not in KINDS:
                raise Unsealed(f"names a part {name!r} of unknown kind {one.kind!r}")
        return cls(given["attempt"], given["size_B"], given["file_checksum"], abouts)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A checkpoint after `step` steps, by one note per rank; `words` say of which run."""

    step: int
    words: Mapping[str, Any]
    notes: Sequence[Note]

    def write(self, folder: Path) -> None:
        """Commits the checkpoint in `folder`. Raises OSError."""
        files = [note.to_dict() for note in self.notes]
        write_sealed(folder / MANIFEST, {"step": self.step, "words": dict(self.words), "files": files})

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest in `folder`. Raises Unsealed for one that is damaged, or of another folder or version."""
        given = _fields(read_sealed(folder / MANIFEST), step=int, words=dict, files=list)
        if folder.name != (name := folder_of(folder.parent, given["step"]).name):
            raise Unsealed(f"is of {name}")
        notes = [Note.of(one) for one in given["files"]]
        if not notes:
            raise Unsealed("names no files")
        return cls(given["step"], given["words"], notes)


def _fields(value: Any, **kinds: type) -> dict[str, Any]:
    """`value` as a mapping of exactly these fields; whole numbers from 0. Raises Unsealed."""
    if not isinstance(value, dict) or set(value) != set(kinds):
        raise Unsealed(f"does not have the fields {', '.join(kinds)}")
    for name, kind in kinds.items():
        if type(value[name]) is not kind or (kind is int and value[name] < 0):
            raise Unsealed(f"has a field {name} that cannot be")
    return value
