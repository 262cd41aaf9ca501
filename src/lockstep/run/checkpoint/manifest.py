"""`Manifest`: what makes the files of the ranks one checkpoint; `Part`: one array of a rank's state in it.

The JSON files carry their own checksum: what is read is, to the bit, what was written, or it is refused.

    {"checksum":"<BLAKE2b of the rest>", ... ,"schema":1}

The rest is the same object without the checksum, as canonical JSON. A reader compares the file with the canonical form
of what it parsed as well, so that no two files are read as the same one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from lockstep.base.documents.files import BESIDE, open_file, read_bytes
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.store.files import canonical, write_whole
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json, picked

MANIFEST = "manifest.json"
PREFIX = "step-"
CHUNK_B = 1 << 20
_OWN = re.compile(r"(rank-\d+\.(npz|json)|manifest\.json)(\.tmp)?|" + BESIDE.pattern)

REPLICATED, SHARDED, OWN = "replicated", "sharded", "own"
KINDS = (REPLICATED, SHARDED, OWN)
SCHEMA = 1
MOST_B = 64 << 20
CHECKSUM = "checksum"


def folder_of(root: Path, step: int) -> Path:
    """Where the checkpoint after `step` steps lies."""
    return root / f"{PREFIX}{step:08d}"


def data_file(folder: Path, rank: int) -> Path:
    """The arrays of a rank."""
    return folder / f"rank-{rank}.npz"


def note_file(folder: Path, rank: int) -> Path:
    """What a rank says of its file once it is on the disk."""
    return folder / f"rank-{rank}.json"


def checksum(path: Path) -> str:
    """BLAKE2b of a file's bytes, 16 bytes in hex."""
    found = hashlib.blake2b(digest_size=16)
    with open_file(path) as file:
        while chunk := file.read(CHUNK_B):
            found.update(chunk)
    return found.hexdigest()


def folders(root: Path) -> list[Path]:
    """Folders under `root` that may be checkpoints, oldest first; those whose names give no step come last.

    Raises BadInput where `root` is no folder that can be read; one that does not exist holds none.
    """
    try:
        with os.scandir(root) as entries:
            named = [root / one.name for one in entries if one.name.startswith(PREFIX)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BadInput(f"is not a readable folder of checkpoints: {error.strerror}", str(root)) from None
    return sorted((one for one in named if os.path.lexists(one / MANIFEST)), key=_age)


def _age(folder: Path) -> tuple[bool, int, str]:
    step = folder.name.removeprefix(PREFIX)
    known = step.isdecimal() and step.isascii()
    return not known, int(step) if known else 0, step


def remove(folder: Path) -> None:
    """Removes a checkpoint's files, and the folder if nothing else is in it; a link is left where it is."""
    if folder.is_symlink():
        return
    with os.scandir(folder) as entries:
        own = [one.name for one in entries if _OWN.fullmatch(one.name) and not one.is_dir(follow_symlinks=False)]
    # The manifest first: a half-removed checkpoint is none.
    for name in sorted(own, key=lambda name: name != MANIFEST):
        (folder / name).unlink()
    with suppress(OSError):
        folder.rmdir()


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """An array under a name.

    replicated: the same on every rank, kept once; sharded: the elements from `start` of a vector of `total`; own: this
    rank's alone, which no other number of ranks can use.
    """

    name: str
    array: Array
    kind: str = REPLICATED
    start: int = 0
    total: int = 0


def assembled(name: str, shards: list[Part]) -> Array:
    """The whole vector from its shards, in any order; elements beyond `total` are padding. Raises BadInput for gaps."""
    total = shards[0].total
    whole = np.empty(total, dtype=shards[0].array.dtype)
    reached = 0
    for shard in sorted(shards, key=lambda one: one.start):
        if shard.start > reached:
            break
        stop = min(shard.start + shard.array.size, total)
        whole[shard.start : stop] = shard.array.ravel()[: max(0, stop - shard.start)]
        reached = max(reached, stop)
    if reached < total:
        raise BadInput(f"the shards of {name} end at element {reached} of {total}")
    return whole


class Unsealed(BadInput):
    """A file that is not what was written, or not what this version writes; the message goes on after its name."""


def digest(value: Mapping[str, object]) -> str:
    """BLAKE2b of the value as canonical JSON, 16 bytes in hex (RFC 7693)."""
    return hashlib.blake2b(canonical(value).encode(), digest_size=16).hexdigest()


def write_sealed(path: Path, value: Mapping[str, object]) -> None:
    """Replaces `path` by `value` (plain JSON) with schema and checksum. Raises OSError."""
    whole = {**value, "schema": SCHEMA}
    write_whole(path, {**whole, CHECKSUM: digest(whole)})


def read_sealed(path: Path) -> Json:
    """What `write_sealed` was given. Raises Unsealed, also for a newer schema or a file without a checksum."""
    if not os.path.exists(path):
        raise Unsealed("is missing")
    try:
        return unsealed(read_bytes(path, MOST_B))
    except Unsealed:
        raise
    except BadInput as error:
        raise Unsealed(error.message) from None


def unsealed(content: bytes) -> Json:
    """What the bytes of a sealed file hold. Raises Unsealed."""
    try:
        whole = json.loads(content)
        if not isinstance(whole, dict):
            raise Unsealed("is damaged: it holds no object")
        if CHECKSUM not in whole:
            raise Unsealed("is damaged or of an earlier Lockstep: it has no checksum")
        if content != f"{canonical(whole)}\n".encode():
            raise Unsealed("is damaged: it is not as it was written")
        if whole.pop(CHECKSUM) != digest(whole):
            raise Unsealed("is damaged: its checksum is another")
    except Unsealed:
        raise
    except (ValueError, RecursionError):
        raise Unsealed("is damaged: it is not JSON") from None
    if (schema := whole.pop("schema", None)) != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        raise Unsealed(f"is of a newer Lockstep (schema {schema})" if newer else f"has an unknown schema: {schema}")
    return whole


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

    def to_dict(self) -> Json:
        """Plain JSON form."""
        parts = {name: picked(one, "kind start total") for name, one in self.parts.items()}
        return picked(self, "attempt size_B file_checksum") | {"parts": parts}

    @classmethod
    def of(cls, value: object) -> Note:
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
    words: Mapping[str, object]
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


def _fields(value: object, **kinds: type) -> Json:
    """`value` as a mapping of exactly these fields; whole numbers from 0. Raises Unsealed."""
    if not isinstance(value, dict) or set(value) != set(kinds):
        raise Unsealed(f"does not have the fields {', '.join(kinds)}")
    for name, kind in kinds.items():
        if type(value[name]) is not kind or (kind is int and value[name] < 0):
            raise Unsealed(f"has a field {name} that cannot be")
    return value
